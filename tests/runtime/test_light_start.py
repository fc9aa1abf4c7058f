"""Frequent verbs load little; counts of modules, never times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SessionNotFound
from holdfast.runtime.cli import printing, reporting
from holdfast.runtime.store.store import Store

HEAVY = {
    *(
        "docker",
        "argparse",
        "rich",
        "pydantic",
        "pyte",
        "tenacity",
        "requests",
        "httpx",
        "asyncio",
    ),
    *("dataclasses", "inspect", "pathlib", "typing", "threading", "shutil", "importlib.metadata"),
}
"""What no frequent verb loads: each takes longer than a tenth of the command."""
PROGRAM = """
import sys
from holdfast.runtime.cli.main import run
sys.argv = ["holdfast", *sys.argv[1:]]
try:
    run()
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


def loaded(home: Path, *words: str, **more: str) -> set[str]:
    """Return the modules that a command line loads, with `more` in its environment."""
    environment = {**os.environ, "HOLDFAST_HOME": str(home), **more}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("--version",), 60),
        (("--help",), 75),
        (("ls",), 135),
        (("exec", "nothing", "true"), 135),
        (("exec", "--json", "nothing", "--timeout", "5", "true"), 135),
        (("cell", "nothing", "1"), 135),
        (("send", "nothing", "x"), 135),
    ],
)
def test_frequent_verbs_load_little(home: Any, words: tuple[str, ...], most: int) -> None:
    """Without a session they fail after everything was loaded that they need to find it."""
    Store.open(home.database)
    names = loaded(home.root, *words)

    assert names & HEAVY == set()
    assert len(names) <= most


@pytest.mark.parametrize(
    ("words", "most"), [(("run", "nothing", "--", "true"), 145), (("cp", "nothing:x", "."), 160)]
)
def test_other_verbs_load_no_engine(home: Any, words: tuple[str, ...], most: int) -> None:
    """Only modules that find a session, and the verb's own imports."""
    Store.open(home.database)
    names = loaded(home.root, *words)

    assert names & {"docker", "rich", "pydantic", "pyte", "requests", "httpx", "asyncio"} == set()
    assert len(names) <= most


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("line", ["holdfast ", "holdfast exec a", "holdfast exec a --t"])
def test_completion_loads_little(home: Any, shell: str, line: str) -> None:
    """A shell waits for it at each press of Tab."""
    Store.open(home.database).add_session("alpha", "image", {})
    words = line.split()
    asked = {"_HOLDFAST_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "_TYPER_COMPLETE_ARGS": line}
    asked |= {"COMP_CWORD": str(len(words) - (not line.endswith(" ")))}
    names = loaded(home.root, **asked | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})

    assert names & HEAVY == set()
    assert len(names) <= 135


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BrokenPipeError(), SessionNotFound("cannot: x")])
def test_every_end_has_an_exit_code(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise error

    monkeypatch.setattr(printing, "mute", lambda: None)
    code = reporting.reported(fail, as_json=False)
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 1)
