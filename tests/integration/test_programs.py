"""Real programs go on after a capture: some of the catalog, and how the command speaks of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.cli import app
from holdfast.runtime.controller import Holdfast
from holdfast.runtime.programs import catalog, runner
from holdfast.runtime.programs.program import Program, Run

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

QUICK = ("bash-jobs", "zombies", "other-user", "python-asyncio", "pdb", "c-files")


@pytest.fixture
def program() -> Callable[..., Program]:
    def make(name: str, **more: Any) -> Program:
        start = "i=0; while :; do i=$((i+1)); echo $i 0 > new; mv new state; sleep 0.05; done"
        usual = {"start": start, "ready": "begun state", "check": (Run("steady state"),)}
        return Program(name=name, family="made", does="counts", **(usual | more))

    return make


def test_programs_go_on_in_parent_and_copies(
    hf: Holdfast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six at once, by the command: the result is JSON on standard output and a page, progress is told."""
    page = tmp_path / "page.md"
    code = app.call(["doctor", "--programs", "--only", ",".join(QUICK), "--json", "--markdown", str(page)])
    out, told = capsys.readouterr()
    found = json.loads(out)
    assert [(one["name"], one["reason"]) for one in found if one["result"] != "works"] == [], told
    assert code == 0
    assert {one["together"] for one in found} == {len(QUICK)}, told
    assert all(f"works: {name}" in told for name in QUICK)
    assert all(f"| {name} |" in page.read_text() for name in QUICK)


def test_one_program_does_not_redden_its_neighbours(hf: Holdfast, program: Callable[..., Program]) -> None:
    """What makes a capture fail is found; the others work. What does not start is told with its words."""
    programs = [
        program("good"),
        program(
            "traced",
            start="exec strace -o trace sleep 100041",
            ready="[ -s trace ]",
            refusable=("not what it is called",),
        ),
        program("broken", start="echo 'no such thing'; exit 3"),
    ]
    said: list[str] = []
    found = {one.program: one for one in runner.run(hf, programs, say=said.append)}
    assert found["good"].word == "works", said
    assert found["traced"].word == "red"
    assert found["traced"].passed == ("started",)
    assert "not by name" in found["traced"].reason
    assert "no such thing" in found["broken"].reason


def test_the_command_lists_what_there_is(cli: Any) -> None:
    """Without an engine; a wrong name is refused, and so is what only goes with programs."""
    names = [entry["name"] for entry in cli("doctor", "--programs", "--list", "--json").json]
    assert names == [program.name for program in catalog.PROGRAMS]
    assert cli("doctor", "--programs", "--only", "emacs", "--json").error["code"] == "invalid_argument"
    assert cli("doctor", "--list", "--json").error["code"] == "invalid_argument"
