"""One event of a session, as a value, and its parsing from a guest's message. Pure.

On the path of `exec`: fields are read with `wire_fields`, because pydantic takes a while to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.base.text import plain
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.journal.event_text import format_event

LATEST = 4e9
"""The latest possible time of an event, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `seq` counts the entries of the session's journal; `data` has their fields."""

    seq: int
    at: datetime
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the event for programs, as it is in the journal."""
        return {"seq": self.seq, "at": round(self.at.timestamp(), 6), "kind": self.kind, **self.data}

    @property
    def text(self) -> str:
        """The event as a sentence on one line."""
        return plain(format_event(self.kind, self.data), 400)


def parse(entry: Mapping[str, Any]) -> Event:
    """Parse an entry of a guest's journal, which can be anything.

    Raises:
        ProtocolError: it is not valid.
    """
    data = {key: value for key, value in entry.items() if key not in ("seq", "at", "kind")}
    return Event(
        seq=wire_fields.integer(entry, "seq"),
        at=datetime.fromtimestamp(min(wire_fields.number(entry, "at"), LATEST), UTC),
        kind=plain(wire_fields.text(entry, "kind"), 40),
        data=data,
    )
