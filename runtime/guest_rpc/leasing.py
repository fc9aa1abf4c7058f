"""The lease of a shell as a supervisor reports it, validated.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base.text import plain
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.results import Attached, Lease


def lease(frame: wire_fields.FrameLike) -> Lease:
    """Return the lease and the attached terminals."""
    attached = tuple(_attached(row) for row in wire_fields.rows(frame, "attached"))
    given = wire_fields.head(frame).get("lease")
    if given is None:
        return Lease(None, attached=attached)
    held = wire_fields.table(given, "lease")
    return Lease(
        holder=plain(wire_fields.text(held, "holder"), 100),
        since=_moment(held, "since"),
        active=_moment(held, "active"),
        until=_moment(held, "until"),
        attached=attached,
    )


def _moment(held: Mapping[str, Any], key: str) -> float | None:
    return None if held.get(key) is None else wire_fields.number(held, key)


def _attached(row: Mapping[str, Any]) -> Attached:
    return Attached(
        actor=plain(wire_fields.text(row, "actor"), 100),
        rows=wire_fields.integer(row, "rows", 1),
        cols=wire_fields.integer(row, "cols", 1),
        writes=wire_fields.flag(row, "writes"),
    )
