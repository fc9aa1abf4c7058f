"""Every program of the catalog, captured in the middle of its work, restored and forked."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.compat.programs import catalog, running
from tests.compat.programs.program import Program, Run

from holdfast.runtime.api.controller import Holdfast

FAMILIES = list(dict.fromkeys(program.family for program in catalog.PROGRAMS))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_program_continues_or_is_refused_by_name(hf: Holdfast, family: str) -> None:
    """In the captured session and in four copies; nothing is left of any of it."""
    found = running.run(hf, catalog.chosen([family]))
    assert [f"{one.program}: {one.reason}" for one in found if one.word == "red"] == []


@pytest.fixture
def program() -> Callable[..., Program]:
    def make(name: str, **more: Any) -> Program:
        start = "i=0; while :; do i=$((i+1)); echo $i 0 > new; mv new state; sleep 0.05; done"
        usual = {"start": start, "ready": "begun state", "check": (Run("steady state"),)}
        return Program(name=name, family="made", does="counts", **(usual | more))

    return make


def test_one_failing_program_does_not_fail_the_others(hf: Holdfast, program: Callable[..., Program]) -> None:
    """The program that makes a capture fail is found; the others work. One that does not start is quoted."""
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
    found = {one.program: one for one in running.run(hf, programs, say=said.append)}
    assert found["good"].word == "works", said
    assert found["traced"].word == "red"
    assert found["traced"].passed == ("started",)
    assert "not by name" in found["traced"].reason
    assert "no such thing" in found["broken"].reason
