"""The programs that share a session, and the search for a culprit."""

from collections.abc import Callable

import pytest
from tests.compat.programs.batches import Batch, plan
from tests.compat.programs.program import Program, Run, Where

Make = Callable[..., Program]


@pytest.fixture
def make() -> Make:
    def program(name: str, stack: str = "", where: Where = "job", alone: bool = False) -> Program:
        return Program(name, "f", "d", "s", "r", (Run("ok"),), where=where, stack=stack, alone=alone)

    return program


def names(batches: list[Batch]) -> list[list[str]]:
    return [[program.name for program in batch.programs] for batch in batches]


def test_programs_with_the_same_packages_share_a_session(make: Make) -> None:
    """At most the allowed number; programs that must be alone are."""
    programs = [make("a"), make("b", "node"), make("c"), make("d", alone=True), make("e"), make("f", "node")]
    assert names(plan(programs, most=2)) == [["a", "c"], ["b", "f"], ["d"], ["e"]]


def test_there_is_one_main_shell_and_one_kernel(make: Make) -> None:
    """Two programs that need it are in two sessions."""
    programs = [make("a", where="shell"), make("b", where="shell"), make("c", where="cell"), make("d")]
    assert names(plan(programs)) == [["a", "c", "d"], ["b"]]


def test_halves_lead_to_the_culprit(make: Make) -> None:
    """A program that fails in every session ends up alone; all are tried again."""
    batch = Batch(tuple(make(f"p{number}") for number in range(7)))
    seen: list[str] = []

    def try_(batch: Batch) -> None:
        if any(program.name == "p4" for program in batch.programs) and batch.halves():
            for half in batch.halves():
                try_(half)
        else:
            seen.extend(program.name for program in batch.programs)

    try_(batch)
    assert seen == [f"p{number}" for number in range(7)]
    assert Batch((make("one"),)).halves() == ()
