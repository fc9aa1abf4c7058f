"""The outcome of one program: which of the four steps it passed, or why not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Word = Literal["works", "refused", "red"]
Step = Literal["started", "captured", "restored", "forked", "verified"]
STEPS: tuple[Step, ...] = ("started", "captured", "restored", "forked", "verified")
FORKS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of the table.

    `passed` are the steps it passed. `refused`: it was not captured, and that was reported in advance and by
    name. `reason` says why it is missing, or quotes its check at the end.
    """

    program: str
    family: str
    does: str
    passed: tuple[Step, ...] = ()
    refused: bool = False
    reason: str = ""

    @property
    def word(self) -> Word:
        """`works`, `refused`, or `red`."""
        if self.refused:
            return "refused"
        return "works" if self.passed == STEPS else "red"


@dataclass(slots=True)
class Progress:
    """The results of a program so far, while its trial runs."""

    failed: str = ""
    refused: bool = False
    passed: list[Step] = field(default_factory=list)
    said: str = ""

    @property
    def going(self) -> bool:
        """True if there is something left to try."""
        return not self.failed and not self.refused


def all_well(found: Sequence[Outcome]) -> bool:
    """Check that no entry is red."""
    return all(one.word != "red" for one in found)
