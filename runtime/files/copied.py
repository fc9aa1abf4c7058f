"""The progress of a copy, and its total."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.base.value_classes import as_table

MOST_NAMED = 1000


def unreported(_: Copied) -> None:
    """Ignore the counts so far."""


@dataclass(slots=True)
class Copied:
    """Counts of copied items, `bytes` of files; omissions, and files that changed during the copy, by
    path."""

    files: int = 0
    folders: int = 0
    links: int = 0
    bytes: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    """Path and kind; the first thousand."""
    changed: list[str] = field(default_factory=list)
    """Files that were written to while they were copied."""

    def leave_out(self, path: str, why: str) -> None:
        """Record an item that is not copied."""
        if len(self.left_out) < MOST_NAMED:
            self.left_out[path] = why

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return as_table(self)
