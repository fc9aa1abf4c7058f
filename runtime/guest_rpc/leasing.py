"""The lease of a shell as a supervisor reports it, validated.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base.text import plain
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.results import Attached, Lease


def lease(frame: Frame) -> Lease:
    """Return the lease and the attached terminals."""
    attached = tuple(_attached(row) for row in wire_fields.rows(frame, "attached"))
    told = frame.head.get("lease")
    if told is None:
        return Lease(None, attached=attached)
    held = Frame({"event": "lease", **wire_fields.table(told, "lease")})
    return Lease(
        holder=plain(wire_fields.text(held, "holder"), 100),
        since=_moment(held, "since"),
        active=_moment(held, "active"),
        until=_moment(held, "until"),
        attached=attached,
    )


def _moment(frame: Frame, key: str) -> float | None:
    return None if frame.head.get(key) is None else wire_fields.number(frame, key)


def _attached(row: Mapping[str, Any]) -> Attached:
    frame = Frame({"event": "attached", **row})
    return Attached(
        actor=plain(wire_fields.text(frame, "actor"), 100),
        rows=wire_fields.integer(frame, "rows", 1),
        cols=wire_fields.integer(frame, "cols", 1),
        writes=wire_fields.flag(frame, "writes"),
    )
