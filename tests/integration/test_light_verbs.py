"""Loads and actions of frequent verbs in a whole run, with a session that answers; counts, never times."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests import packing

from holdfast.base.home import Home

HEAVY = {
    *(
        "docker",
        "argparse",
        "rich",
        "pydantic",
        "tenacity",
        "requests",
        "httpx",
        "asyncio",
        "ssl",
    ),
    *(
        "dataclasses",
        "inspect",
        "pathlib",
        "threading",
        "shutil",
        "subprocess",
        "wcwidth",
        "importlib.metadata",
    ),
}
PROGRAM = """
import sys
from holdfast.runtime.cli.main import run
sys.argv = ["holdfast", *sys.argv[1:]]
code = run()
print(code, *sys.modules, file=sys.stderr)
"""
COUNTING = """
import sys
from holdfast.runtime.cli.main import run
sys.argv = ["holdfast", *sys.argv[1:]]
calls, opened = 0, 0

def called(*_):
    global calls
    calls += 1

def looked_at(event, _):
    global opened
    opened += event == "open"

sys.addaudithook(looked_at)
sys.setprofile(called)
code = run()
sys.setprofile(None)
print(code, calls, opened, file=sys.stderr)
"""
"""Calls and returns of functions, and files opened (PEP 578): the same numbers in every run."""


@pytest.mark.parametrize(
    ("words", "most", "shown"),
    [
        (("ls",), 140, "shared"),
        (("exec", "shared", "echo some output"), 140, "some output"),
        (("exec", "--json", "--timeout", "60", "shared", "--", "echo", "some output"), 150, '"exit_code": 0'),
        (("exec", "shared", "(exit 3)"), 140, ""),
        (("exec", "shared", "--detach", "true"), 145, ""),
        (("cell", "shared", "6 * 7"), 145, "42"),
        (("send", "shared", "--key", "C-u"), 140, ""),
        (("screen", "shared"), 160, "workspace#"),
    ],
    ids=lambda given: " ".join(given[:3]) if isinstance(given, tuple) else "",
)
def test_a_frequent_verb_loads_little(shared_cli: Any, words: tuple[str, ...], most: int, shown: str) -> None:
    """Up to its end: modules that this outcome does not need are not loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=shared_cli.environment, capture_output=True, text=True
    )
    code, *names = done.stderr.splitlines()[-1].split()

    assert code == ("3" if words[-1] == "(exit 3)" else "0"), done.stderr
    assert shown in done.stdout
    assert HEAVY & set(names) == set()
    assert len(names) <= most


def test_a_snapshot_loads_nothing_that_makes_containers(shared_cli: Any) -> None:
    """The store and the engine's library are most of it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "snapshot", "shared"],
        env=shared_cli.environment,
        capture_output=True,
        text=True,
    )
    code, *names = done.stderr.splitlines()[-1].split()
    shared_cli("rmi", done.stdout.strip())  # as long as it is not packed, every command looks at it

    assert code == "0", done.stderr
    assert {"rich", "httpx", "tenacity", "holdfast.runtime.lifecycle.provision"} & set(names) == set()
    assert len(names) <= 685


@pytest.mark.parametrize("words", [("ls",), ("exec", "shared", "true")], ids=["ls", "exec"])
def test_a_frequent_verb_does_little(shared_cli: Any, shared_home: Home, words: tuple[str, ...]) -> None:
    """To load argparse and asyncio alone takes twice as many calls."""
    assert packing.settled(shared_home)
    shared_cli(*words)  # tells the news, if there are any
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *words], env=shared_cli.environment, capture_output=True, text=True
    )
    code, calls, opened = map(int, done.stderr.splitlines()[-1].split())

    assert code == 0, done.stderr
    assert calls <= 70_000
    assert opened <= 90


def test_a_command_is_awaited_lightly(shared: Any, shared_cli: Any) -> None:
    """Jobs are asked for only if it is not a shell's."""
    ran = shared.exec("echo awaited")
    words = ("wait", "shared", ran.command_id)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=shared_cli.environment, capture_output=True, text=True
    )
    code, *names = done.stderr.splitlines()[-1].split()

    assert (code, done.stdout) == ("0", "awaited\n")
    assert HEAVY & set(names) == set()
    shared.detach("echo of a job", name="named")
    assert "of a job" in shared_cli("wait", "shared", "named").out
    assert shared_cli("wait", "shared", "nothing").code == 1


def test_a_screen_with_wide_characters_is_drawn_with_their_widths(shared_cli: Any) -> None:
    """Their table is loaded then."""
    shared_cli("exec", "shared", "printf '\\n日本|\\n'")
    assert "日本|" in shared_cli("screen", "shared").out


def test_the_end_of_a_process_is_as_quick_as_its_output(shared_cli: Any) -> None:
    """All output is written, in order, although the process skips its own teardown."""
    done = shared_cli("exec", "shared", "seq 100000")
    assert done.out == "".join(f"{number}\n" for number in range(1, 100001))
    assert done.code == 0
