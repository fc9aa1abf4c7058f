"""A job in a session: a refactoring in five phases, and a database that is migrated while a server uses it.

`do N` does one step, `check N` verifies it, `serve` is the server, `state` prints the result. Each step has
effects that a second run would double: a line in a ledger, a commit, a note in the memory of the server and
in its database, values that are added up in place. It does not know which process calls it, or how often.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HOME = Path("/workspace/job")
TREE, DATABASE, LEDGER, DOOR = HOME / "tree", HOME / "symbols.db", HOME / "ledger", HOME / "door"


@dataclass(frozen=True)
class Refactored:
    """A project: its package, the renamed module, the renamed functions, and the moved ones."""

    package: str
    module: tuple[str, str]
    names: tuple[tuple[str, str], ...]
    moved: tuple[str, ...]
    test: tuple[str, ...]


PROJECTS = {
    "sqlparse": Refactored(
        package="sqlparse",
        module=("utils", "text_helpers"),
        names=(("split_unquoted_newlines", "split_lines_outside_quotes"), ("remove_quotes", "unquote")),
        moved=("offset", "indent"),
        test=(str(HOME / "env/bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"),
    ),
    "sample": Refactored(
        package="sample",
        module=("utils", "text_helpers"),
        names=(("shout", "emphasize"),),
        moved=("whisper",),
        test=(sys.executable, "-m", "unittest", "-q"),
    ),
}
SAMPLE = {
    "sample/__init__.py": "from sample.utils import shout, whisper\n",
    "sample/utils.py": (
        "def shout(text):\n    return text.upper()\n\n\ndef whisper(text):\n    return text.lower()\n"
    ),
    "sample/greeting.py": (
        "from sample.utils import shout\n\n\ndef greet(name):\n    return shout('hello ' + name)\n"
    ),
    "tests/__init__.py": "",
    "tests/test_greeting.py": (
        "import unittest\n\nfrom sample import whisper\nfrom sample.greeting import greet\n\n\n"
        "class Greeting(unittest.TestCase):\n    def test_it(self):\n"
        "        self.assertEqual(whisper(greet('you')), 'hello you')\n"
    ),
}
PAUSE = 0.02
"""Seconds between the batches of the migration, so that a kill can come between them."""


def main(verb: str, number: str = "") -> None:
    """Do one verb of the command line."""
    if verb == "serve":
        serve()
    elif verb == "state":
        sys.stdout.write(json.dumps(state()))
    elif verb == "check":
        CHECKS[step_of(number)]()
    elif verb == "do":
        HOME.mkdir(parents=True, exist_ok=True)
        _append(f"{number} begins")
        if DOOR.exists():
            ask(f"note {number}")
        STEPS[step_of(number)]()
        _commit(number)
        _append(f"{number} ends")


def step_of(number: str) -> str:
    """Return the name of a step by its number in the plan."""
    names = json.loads((HOME.parent / "steps.json").read_text())
    return str(names[number]["step"])


def state() -> dict[str, object]:
    """Return all that must be the same whether the job was interrupted or not."""
    connection = sqlite3.connect(DATABASE)
    dump = "\n".join(connection.iterdump())
    return {
        "commit": _git("rev-parse", "HEAD"),
        "commits": _git("log", "--format=%s", "--reverse").splitlines(),
        "clean": _git("status", "--porcelain") == "",
        "ledger": LEDGER.read_text().splitlines(),
        "database": hashlib.sha256(dump.encode()).hexdigest(),
        "symbols": connection.execute("SELECT count(*), sum(millilines) FROM symbol").fetchone(),
        "notes_in_memory": json.loads(ask("notes")),
        "notes_in_database": [row[0] for row in connection.execute("SELECT step FROM note ORDER BY rowid")],
        "version": ask("version"),
        "archive": hashlib.sha256((HOME / "source.tar").read_bytes()).hexdigest(),
    }


def fetch() -> None:
    """Fetch the project: from PyPI, or the sample."""
    TREE.mkdir()
    if _project().package == "sample":
        for name, text in SAMPLE.items():
            (TREE / name).parent.mkdir(exist_ok=True)
            (TREE / name).write_text(text)
    else:
        source = HOME / "sdist"
        source.mkdir()
        wanted = (HOME.parent / "requirement").read_text().strip()
        _run("pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(source), wanted)
        (packed,) = source.glob("*.tar.gz")
        _run("tar", "-xf", str(packed), "--strip-components=1", "-C", str(TREE))
    _git("init", "-q", "-b", "main")


def environment() -> None:
    """Make the environment of the tests; the sample needs none."""
    if _project().package != "sample":
        _run(sys.executable, "-m", "venv", str(HOME / "env"))
        _run(str(HOME / "env/bin/pip"), "install", "-q", "pytest", "setuptools")


def database() -> None:
    """Make the database in its first form, and wait for the server, which is started next to this step."""
    connection = sqlite3.connect(DATABASE)
    with connection:
        connection.execute("CREATE TABLE symbol (name TEXT, module TEXT, lines INTEGER)")
        connection.execute("CREATE TABLE note (step TEXT)")
        connection.execute("PRAGMA user_version = 1")
    _wait(DOOR.exists)
    _wait(lambda: ask("version") == "1")


def fill() -> None:
    """Fill the database with the functions of the project, through the server."""
    for path in sorted((TREE / _project().package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                ask(f"add {node.name} {path.relative_to(TREE)} {lines}")


def widen() -> None:
    """Begin the migration: a new column, next to the old one."""
    with sqlite3.connect(DATABASE) as connection:
        connection.execute("ALTER TABLE symbol ADD COLUMN millilines INTEGER NOT NULL DEFAULT 0")


def convert() -> None:
    """Convert in batches, each a transaction; a row that is converted twice counts double."""
    connection = sqlite3.connect(DATABASE, timeout=30)
    last = connection.execute("SELECT max(rowid) FROM symbol").fetchone()[0]
    for first in range(1, last + 1, 10):
        with connection:
            connection.execute(
                "UPDATE symbol SET millilines = millilines + lines * 1000 WHERE rowid BETWEEN ? AND ?",
                (first, first + 9),
            )
        time.sleep(PAUSE)


def switch() -> None:
    """End the migration: the server uses the new form, and the old column goes."""
    ask("switch")
    with sqlite3.connect(DATABASE, timeout=30) as connection:
        connection.execute("ALTER TABLE symbol DROP COLUMN lines")


def rename_module() -> None:
    """Give the module its new name, in the package and its tests."""
    old, new = _project().module
    package = _project().package
    _git("mv", f"{package}/{old}.py", f"{package}/{new}.py")
    _replace(rf"\b{package}\.{old}\b", f"{package}.{new}")
    _replace(rf"\bfrom {package} import {old}\b", f"from {package} import {new} as {old}")


def rename_functions() -> None:
    """Give functions their new names, wherever they are used."""
    for old, new in _project().names:
        _replace(rf"\b{old}\b", new)


def move_functions() -> None:
    """Move functions into a module of their own; the old one still offers them."""
    package, names = _project().package, _project().moved
    source = TREE / package / f"{_project().module[1]}.py"
    text = source.read_text()
    lines = text.splitlines(keepends=True)
    parts: list[str] = []
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
            parts.insert(0, "".join(lines[first : node.end_lineno]))
            del lines[first : node.end_lineno]
    assert len(parts) == len(names), f"cannot move {names}"
    head = "from contextlib import contextmanager\n" if "@contextmanager" in "".join(parts) else ""
    (source.parent / "layout_helpers.py").write_text(head + "\n\n" + "\n\n".join(parts))
    listed = ", ".join(names)
    again = f"from {package}.layout_helpers import {listed}  # noqa: E402, F401"
    source.write_text("".join(lines) + f"\n\n{again}\n")


def annotate() -> None:
    """Let every module of the package take annotations as they are written."""
    for path in sorted((TREE / _project().package).rglob("*.py")):
        text = path.read_text()
        start = next((node.lineno for node in ast.parse(text).body if not _is_text(node)), 1) - 1
        lines = text.splitlines(keepends=True)
        path.write_text("".join([*lines[:start], "from __future__ import annotations\n", *lines[start:]]))


def changelog() -> None:
    """Append to the list of changes."""
    with (TREE / "CHANGES-OF-THE-JOB").open("a") as opened:
        opened.write("- moved and renamed helpers\n")


def archive() -> None:
    """Pack the result; the file is the job's artifact."""
    _git("archive", "--format=tar", "-o", str(HOME / "source.tar"), "HEAD")


def check_tests() -> None:
    """The tests of the project pass."""
    _run(*_project().test, cwd=TREE)


def check_fetched() -> None:
    """The project is there and under version control."""
    assert (TREE / _project().package).is_dir()
    assert _git("log", "--format=%s")


def check_environment() -> None:
    """The tools of the tests can be started."""
    _run(*_project().test, "--help", cwd=TREE)


def check_database() -> None:
    """The server answers."""
    assert ask("version") == "1"


def check_filled() -> None:
    """The database has every function."""
    assert _one("SELECT count(*) FROM symbol") > 2


def check_widened() -> None:
    """The new column is there."""
    assert _one("SELECT sum(millilines) FROM symbol") == 0


def check_converted() -> None:
    """Each value was converted, once."""
    assert _one("SELECT sum(lines) * 1000 FROM symbol") == _one("SELECT sum(millilines) FROM symbol")


def check_switched() -> None:
    """The server uses the new form."""
    assert ask("version") == "2"


def check_changelog() -> None:
    """There is one line."""
    assert (TREE / "CHANGES-OF-THE-JOB").read_text().count("\n") == 1


def check_archive() -> None:
    """The archive can be read."""
    _run("tar", "-tf", str(HOME / "source.tar"))


STEPS: dict[str, Callable[[], None]] = {
    "fetch": fetch,
    "environment": environment,
    "database": database,
    "fill": fill,
    "widen": widen,
    "convert": convert,
    "switch": switch,
    "rename_module": rename_module,
    "rename_functions": rename_functions,
    "move_functions": move_functions,
    "annotate": annotate,
    "changelog": changelog,
    "archive": archive,
}
CHECKS: dict[str, Callable[[], None]] = {
    "fetch": check_fetched,
    "environment": check_environment,
    "database": check_database,
    "fill": check_filled,
    "widen": check_widened,
    "convert": check_converted,
    "switch": check_switched,
    "rename_module": check_tests,
    "rename_functions": check_tests,
    "move_functions": check_tests,
    "annotate": check_tests,
    "changelog": check_changelog,
    "archive": check_archive,
}


def serve() -> None:
    """Answer requests, one a connection, with the database open all the time."""
    notes: list[str] = []
    _wait(DATABASE.exists)
    connection = sqlite3.connect(DATABASE, timeout=30)
    version = 1
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(DOOR))
        listener.listen(8)
        while True:
            peer, _ = listener.accept()
            with peer, peer.makefile("rw") as stream:
                verb, *words = stream.readline().split()
                answer = "ok"
                with connection:
                    if verb == "note":
                        notes.append(words[0])
                        connection.execute("INSERT INTO note VALUES (?)", words)
                    elif verb == "add":
                        connection.execute("INSERT INTO symbol VALUES (?, ?, ?)", words)
                    elif verb == "switch":
                        version += 1
                        connection.execute(f"PRAGMA user_version = {version}")
                    elif verb == "notes":
                        answer = json.dumps(notes)
                    elif verb == "version":
                        answer = str(version)
                stream.write(f"{answer}\n")
                stream.flush()


def ask(line: str) -> str:
    """Return the answer of the server to one line."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rw") as stream:
        connection.settimeout(60)
        connection.connect(str(DOOR))
        stream.write(f"{line}\n")
        stream.flush()
        return stream.readline().strip()


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _project() -> Refactored:
    return PROJECTS[(HOME.parent / "project").read_text().strip()]


def _one(query: str) -> int:
    return int(sqlite3.connect(DATABASE, timeout=30).execute(query).fetchone()[0])


def _append(line: str) -> None:
    with LEDGER.open("a") as opened:
        opened.write(f"{line}\n")


def _replace(pattern: str, by: str) -> None:
    for path in sorted(TREE.rglob("*.py")):
        text = path.read_text()
        changed = re.sub(pattern, by, text)
        if changed != text:
            path.write_text(changed)


def _commit(number: str) -> None:
    if not TREE.exists():
        return
    _git("add", "-A")
    major, minor = number.split(".")
    when = f"2026-01-{int(major):02}T00:{int(minor):02}:00Z"
    _git("commit", "-q", "--allow-empty", "-m", f"step {number}", when=when)


def _git(*words: str, when: str = "2026-01-01T00:00:00Z") -> str:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    named = dict.fromkeys(names, "job@invalid")
    dated = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    return _run("git", *words, cwd=TREE, **named, **dated).strip()


def _run(*words: str, cwd: Path | None = None, **environment: str) -> str:
    with_these = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run(words, cwd=cwd, env=with_these, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, "it waits in vain"
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
