"""The operations on the journal: its entries, and its present end."""

from __future__ import annotations

import json

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.records.journal import PAGE
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

MAX_LIMIT = 1_000_000


async def journal(guest: Guest, call: ClientCall) -> None:
    """Send the entries after one, of some kinds or all; with `follow`, new ones as well."""
    after = call.integer("after_seq", 0, low=0)
    left = call.integer("limit", MAX_LIMIT, low=0, high=MAX_LIMIT)
    follow = call.frame.head.get("follow") is True
    kinds = _kinds(call)
    while left > 0:
        last = guest.journal.last
        page = guest.journal.entries(after, min(left, PAGE), kinds)
        for entry in page:
            after = entry["seq"]
            data = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
            await call.send("entry", data, seq=after, kind=entry["kind"])
        left -= len(page)
        if page or left <= 0:
            continue
        after = max(after, last)
        if not follow:
            break
        if guest.journal.last <= after:  # below it, for a reader that begins beyond the end
            await guest.journal.more()
    await call.finish("end_of_journal", last_seq=guest.journal.last, first_seq=guest.journal.first)


async def moment(guest: Guest, call: ClientCall) -> None:
    """Send where the session's records end now."""
    await call.finish("moment", **guest.moment())


def _kinds(call: ClientCall) -> frozenset[str] | None:
    kinds = call.frame.head.get("kinds")
    if kinds is None:
        return None
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise RequestRefused("invalid", f"cannot do {call.frame.op}: kinds must be a list of texts")
    return frozenset(kinds)


OPERATIONS: Operations = {"journal": journal, "moment": moment}
