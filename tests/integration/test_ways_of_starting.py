"""However a command is started: by cron, a service, nohup, a script that closes everything."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.thorough

BARE = {"PATH": "/usr/bin:/bin"}
"""All that cron sets, but for HOME, SHELL and LOGNAME, which a service may lack."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose name needs quotes everywhere, with one session."""
    made = Home(tmp_path_factory.mktemp("state") / "a home: $x 'ünï' \"日本\"").create()
    with Holdfast(made) as hf:
        hf.new("work")
        yield made
        for session in hf.sessions():
            session.remove()
        for snapshot in reversed(hf.snapshots()):
            snapshot.remove()


def _ignoring(*signals: int) -> Callable[[], None]:
    def prepare() -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)

    return prepare


def _closing(*descriptors: int) -> Callable[[], None]:
    def prepare() -> None:
        for number in descriptors:
            os.close(number)

    return prepare


def _umask(mask: int) -> Callable[[], None]:
    def prepare() -> None:
        os.umask(mask)

    return prepare


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def _nowhere() -> None:
    folder = Path(f"/tmp/gone-{os.getpid()}")
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()


def _all(*steps: Callable[[], None]) -> Callable[[], None]:
    def prepare() -> None:
        for step in steps:
            step()

    return prepare


NOHUP = _ignoring(signal.SIGHUP, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE)
WAYS: dict[str, Callable[[], None]] = {
    "nohup, from a directory that is gone": _all(NOHUP, _umask(0), _nowhere),
    "stdin closed": _all(_closing(0), _umask(0o077)),
    "stdout closed": _all(_closing(1), _umask(0o777)),
    "everything closed": _all(_few_files, _closing(0, 1, 2)),
}
"""Together, because each way takes some seconds: nothing of one hides another."""


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_starting_works(home: Home, way: str) -> None:
    """A command, a cell, a capture and a copy, without terminal, HOME or locale; the home stays closed."""

    def run(*words: str, stdin: Any = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            env=BARE | {"HOLDFAST_HOME": str(home.root)},
            stdin=stdin,
            capture_output=True,
            preexec_fn=WAYS[way],
            start_new_session=True,
            text=True,
            timeout=240,
            check=False,
        )

    written = way not in ("stdout closed", "everything closed")
    told = run("exec", "work", "echo $((40 + 2)); (exit 3)")
    assert (told.returncode, told.stdout) == (3, "42\n" if written else ""), told.stderr
    assert run("cell", "work", "40 + 2").returncode == 0
    taken = run("snapshot", "work", "--label", "taken")
    assert taken.returncode == 0, taken.stderr
    restored = run("restore", "taken", "--name", "copy")
    assert restored.returncode == 0, restored.stderr
    assert run("exec", "copy", "(exit 4)").returncode == 4
    wrong = run("exec", "nothing", "true")
    assert wrong.returncode == 1
    assert "Traceback" not in wrong.stderr
    assert run("rm", "copy").returncode == 0
    assert run("rmi", "taken").returncode == 0
    assert run("ls").returncode == 0
    open_to_others = [path for path in _below(home.root) if path.lstat().st_mode & 0o022]
    assert open_to_others == []


def _below(root: Path) -> Iterator[Path]:
    """The content of the home, except for files that a session itself made in its shared folder."""
    for folder, folders, files in os.walk(root):
        if Path(folder) == root:
            folders.remove("run")
        yield from (Path(folder, name) for name in (*folders, *files) if not Path(folder, name).is_symlink())


def test_the_account_tells_the_home_where_nothing_is_set(tmp_path: Path) -> None:
    """`ls` of a user without HOME works, or says what to set."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "ls"],
        env=BARE | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "holdfast" / "holdfast.db").exists()


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["new", "--help"], ["ls"], ["exec", "work", "echo x"]]
)
def test_output_that_finds_no_room_is_one_line(home: Home, words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            env={**os.environ, "HOLDFAST_HOME": str(home.root)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "holdfast: cannot write the output: No space left on device\n",
    )
