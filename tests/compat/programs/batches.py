"""The programs that share a session, and the further trials when they do not get along. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.compat.programs.program import Program

# Each copy of a session holds the memory of all of them, and three copies are there at once.
MOST = 10


@dataclass(frozen=True, slots=True)
class Batch:
    """Programs that share a session."""

    programs: tuple[Program, ...]

    @property
    def stack(self) -> str:
        """The packages all of them need."""
        return self.programs[0].stack

    @property
    def memory(self) -> int:
        """The limit of the session, in bytes."""
        return max(program.memory for program in self.programs)

    def halves(self) -> tuple[Batch, ...]:
        """Return two smaller batches, to find the culprit; none if there is only one program."""
        middle = len(self.programs) // 2
        if not middle:
            return ()
        return Batch(self.programs[:middle]), Batch(self.programs[middle:])


def plan(programs: Sequence[Program], most: int = MOST) -> list[Batch]:
    """Return batches of programs with the same packages, in the order of the catalog."""
    made: list[list[Program]] = []
    for program in programs:
        room = None if program.alone else _room(made, program, most)
        if room is None:
            made.append([program])
        else:
            room.append(program)
    return [Batch(tuple(batch)) for batch in made]


def _room(made: list[list[Program]], program: Program, most: int) -> list[Program] | None:
    for batch in made:
        first = batch[0]
        # Only one of them can have the main shell, or the kernel.
        taken = program.where != "job" and any(other.where == program.where for other in batch)
        if not first.alone and first.stack == program.stack and len(batch) < most and not taken:
            return batch
    return None
