"""The entries of sessions that make up the past of a session.  Pure.

A restored session continues where its snapshot was taken: its past is that of the captured session up to that
point, and so on. What came later there is another timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a session branched off: after entry `position` of its parent, at a time."""

    parent: str
    position: int
    at: float


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A session's share in a line: all of its own entries, or those up to a number and a time."""

    session_id: str
    position: int | None = None
    at: float | None = None

    def covers(self, seq: int, at: float, *, host: bool) -> bool:
        """Check whether an entry of the session belongs to the line."""
        if self.position is None or self.at is None:
            return True
        return at <= self.at if host else seq <= self.position


def line_of(session_id: str, branches: Mapping[str, Branch]) -> list[TimelinePart]:
    """Return the parts of a session's line, oldest first; the last is all of its own."""
    parts = [TimelinePart(session_id)]
    seen = {session_id}
    branch = branches.get(session_id)
    while branch is not None and branch.parent not in seen:
        seen.add(branch.parent)
        parts.append(TimelinePart(branch.parent, branch.position, branch.at))
        branch = branches.get(branch.parent)
    return parts[::-1]


def family_of(session_id: str, branches: Mapping[str, Branch]) -> set[str]:
    """Return all sessions that share a past with this one."""
    root = line_of(session_id, branches)[0].session_id
    return {
        other for other in {session_id, root, *branches} if line_of(other, branches)[0].session_id == root
    }
