"""What a supervisor says about the lease of a shell, checked.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.runtime import fields
from holdfast.runtime.guest.protocol import Frame
from holdfast.runtime.results import Attached, Lease
from holdfast.runtime.text import plain


def lease(frame: Frame) -> Lease:
    """The lease and who is attached."""
    attached = tuple(_attached(row) for row in fields.rows(frame, "attached"))
    told = frame.head.get("lease")
    if told is None:
        return Lease(None, attached=attached)
    held = Frame({"event": "lease", **fields.table(told, "lease")})
    return Lease(
        holder=plain(fields.text(held, "holder"), 100),
        since=_moment(held, "since"),
        active=_moment(held, "active"),
        until=_moment(held, "until"),
        attached=attached,
    )


def _moment(frame: Frame, key: str) -> float | None:
    return None if frame.head.get(key) is None else fields.number(frame, key)


def _attached(row: Mapping[str, Any]) -> Attached:
    frame = Frame({"event": "attached", **row})
    return Attached(
        actor=plain(fields.text(frame, "actor"), 100),
        rows=fields.integer(frame, "rows", 1),
        cols=fields.integer(frame, "cols", 1),
        writes=fields.flag(frame, "writes"),
    )
