"""Tries programs, several in one session where that works, and finds the culprit where it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.compat import stacks
from tests.compat.programs.batches import Batch, plan
from tests.compat.programs.outcome import Outcome
from tests.compat.programs.program import Program
from tests.compat.programs.trial import Together, Trial
from tests.compat.trials import Say
from tests.compat.wording import reason

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast


def run(
    controller: Holdfast,
    programs: Sequence[Program],
    *,
    say: Say = lambda _line: None,
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
) -> list[Outcome]:
    """Try programs, and return their outcomes in the order given.

    `say` gets a line for each step; `on_outcome` each result as soon as it is known.
    """
    found: dict[str, Outcome] = {}

    def note(outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            found[outcome.program] = outcome
            on_outcome(outcome)

    for batch in plan(programs):
        try:
            image = stacks.image(controller, batch.stack)
        except HoldfastError as error:
            note([_lost(program, error) for program in batch.programs])
            continue
        _try(controller, batch, image, say, note)
    return [found[program.name] for program in programs]


def _try(
    controller: Holdfast,
    batch: Batch,
    image: str | None,
    say: Say,
    note: Callable[[Sequence[Outcome]], None],
) -> None:
    say("trying " + ", ".join(program.name for program in batch.programs))
    try:
        note(Trial(controller, batch, image, say).run())
    except Together as together:
        say(f"not all of them together: {together}")
        note(together.settled)
        settled = {outcome.program for outcome in together.settled}
        left = Batch(tuple(program for program in batch.programs if program.name not in settled))
        for half in left.halves():
            _try(controller, half, image, say, note)
    except HoldfastError as error:
        note([_lost(program, error) for program in batch.programs])


def _lost(program: Program, error: HoldfastError) -> Outcome:
    return Outcome(program.name, program.family, program.does, reason=reason(error))
