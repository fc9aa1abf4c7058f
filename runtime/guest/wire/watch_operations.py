"""The operation that watches files: numbered changes, of which the client confirms each batch."""

from __future__ import annotations

import json
from typing import Any

from holdfast.runtime.guest.files.folder_watch import FolderWatch
from holdfast.runtime.guest.files.path_events import PathChange
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.named_path import NamedPath, refusing


async def watch(guest: Guest, call: ClientCall) -> None:
    """Send changes after a number, as they come.

    A client that was connected before sends `begun`: if its watch is not known any more, its changes begin
    with the word that some were lost. One that does not come back ends its watch with `end`.
    """
    id_, after = call.id(), call.integer("after", 0, low=0)
    if call.frame.head.get("end") is True:
        guest.watches.remove(id_)
        await call.finish("gone")
        return
    guest.watches.attach(id_, call)
    try:
        found = guest.watches.known(id_) or await _begin(guest, call, after)
        await call.send("watching", _json({"root": found.root, "watched": found.watched}))
        await _send(found, call, after)
    finally:
        guest.watches.left(id_, call)
    if found.over:
        raise RequestRefused("watch_limit", f"cannot watch {found.root!r} any longer: {found.over}")
    await call.finish("gone")


async def _begin(guest: Guest, call: ClientCall, after: int) -> FolderWatch:
    place, recursive = NamedPath(guest, call), call.frame.head.get("recursive") is True
    with refusing(f"watch {place.shown}"):
        found = await guest.watches.begin(
            call.id(), place.path, place.account, recursive=recursive, last=after
        )
    if call.frame.head.get("begun") is True:
        found.backlog.lose("gone")
    return found


async def _send(found: FolderWatch, call: ClientCall, after: int) -> None:
    found.heard(after)
    while True:
        batch = found.backlog.batch(after)
        if not batch:
            if found.over is not None:
                return
            await found.changes.wait()
            continue
        after = batch[-1][0]
        await call.send("changes", _json([_fields(number, change) for number, change in batch]))
        confirmed = ClientCall(call.connection, await call.connection.receive())
        if confirmed.frame.op != "received" or confirmed.integer("seq", low=0) != after:
            raise RequestRefused("invalid", "cannot continue the watch: its changes were not confirmed")
        found.heard(after)


def _fields(number: int, change: PathChange) -> dict[str, Any]:
    fields = {"seq": number, "kind": change.kind, "path": change.path, "folder": change.folder}
    return fields | {key: value for key in ("to", "why") if (value := getattr(change, key)) is not None}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


OPERATIONS: Operations = {"file_watch": watch}
