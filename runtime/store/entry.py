"""One entry of a journal, and its parsing from a session's line. Pure.

The session is not trusted: a malformed line is not an entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MAX_LINE = 2 << 20
_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ACTOR = re.compile(r"[^\x00-\x20\x7f-\x9f]{1,80}")
_OWN = ("seq", "at", "kind", "actor")
FIELDS = ("seq", "at", "kind", "session", "session_id", "actor", "host", "current")
"""Fields of every entry, in their order for programs. Details, written by a session, cannot replace them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened.

    `seq` numbers the entries of a line of sessions; entries of this host (`host`) have the number of the
    entry they came after. `at` is in Unix seconds. `current` is false for entries of another timeline:
    after the point that the session was restored from, or in a fork. `details` depend on the kind.
    """

    session_id: str
    session: str
    seq: int
    at: float
    kind: str
    actor: str | None = None
    host: bool = False
    current: bool = True
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time(self) -> datetime:
        """When it happened, in UTC."""
        return datetime.fromtimestamp(self.at, UTC)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields in one table."""
        return {
            **{name: getattr(self, name) for name in FIELDS},
            **{key: value for key, value in self.details.items() if key not in FIELDS},
        }


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A checked line of a session's journal."""

    seq: int
    at: float
    kind: str
    actor: str | None
    body: str
    """The other fields as a JSON object."""


def parse_line(line: bytes) -> CheckedLine | None:
    """Parse a line; None if it is not an entry."""
    if len(line) > MAX_LINE:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    seq, at, kind, actor = (found.pop(key, None) for key in _OWN)
    if isinstance(seq, bool) or not isinstance(seq, int) or not 0 < seq < 2**53:
        return None
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < 1e11:
        return None
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        return None
    if not isinstance(actor, str) or not _ACTOR.fullmatch(actor):
        actor = None
    try:
        body = json.dumps(found, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None
    return CheckedLine(seq, float(at), kind, actor, body)
