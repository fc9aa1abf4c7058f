"""A step of a long operation, as its watcher gets it. Knows no terminal and no operation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """What an operation does at the moment.

    Attributes:
        text: the step in a few words, such as `freezing work`.
        done: how much of it is done; None where that is not counted.
        total: how much there is to do; None where that is not known.
    """

    text: str
    done: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        """Return the step as a person reads it."""
        if self.done is None:
            return self.text
        return f"{self.text} ({self.done} of {self.total})" if self.total else f"{self.text} ({self.done})"
