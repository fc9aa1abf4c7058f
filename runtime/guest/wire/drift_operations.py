"""The operations behind drift: the session's present state, and facts about some files."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from holdfast.runtime.guest.captures import held_state
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.records import changed_files
from holdfast.runtime.guest.records.changed_files import Owners, PackageRecord
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

PER_TURN = 200
"""Paths read before other tasks get their turn: 1 to 2 ms."""
PER_FRAME = 10_000
MAX_PATHS = 200_000
MAX_RECORDS = 2000


async def held(guest: Guest, call: ClientCall) -> None:
    """Send what the session holds."""
    await call.finish("holdings", _json(await _holdings(guest)))


async def _holdings(guest: Guest) -> dict[str, Any]:
    """Return the session's state. Takes milliseconds, or seconds where a kernel does not answer."""
    kernels = {name: await held_state.kernel_of(kernel) for name, kernel in guest.kernels.items()}
    # Pending changes are written first, so that the journal's entries lead from any of them to here.
    for name, found in kernels.items():
        guest.changes.seen(name, found)
    guest.changes.settle()
    return {
        "at": round(time.time(), 6),
        "seq": guest.journal.last,
        "generation": guest.identity.generation,
        "processes": held_state.processes(guest.shells, guest.kernels, guest.lineage),
        "shells": {
            name: {"pid": shell.pid or 0, **held_state.shell_of(shell.held())}
            for name, shell in guest.shells.items()
        },
        "kernels": kernels,
    }


async def files(_: Guest, call: ClientCall) -> None:
    """Send kind, size, times and package of each given path, in order, and versions of packages."""
    paths, records, since = _asked(call)
    owners = Owners(records)
    found: list[list[Any] | None] = []
    for number, path in enumerate(paths, start=1):
        known = changed_files.facts(path)
        if known is not None:
            known.append(owners.of(path, known[3]) if known[0] != "d" else -1)
        found.append(known)
        if number % PER_TURN == 0:
            await asyncio.sleep(0)
        if len(found) == PER_FRAME:
            await call.send("facts", _json(found))
            found = []
    await call.send("facts", _json(found))
    versions = changed_files.versions(records, since)
    await call.finish("versions", _json({str(number): one for number, one in versions.items()}))


def _asked(call: ClientCall) -> tuple[list[str], list[PackageRecord], float]:
    wrong = RequestRefused("invalid", "cannot look at files: the payload must be JSON with paths and records")
    try:
        asked = json.loads(call.frame.payload)
        paths, since = asked["paths"], float(asked["since"])
        records = [PackageRecord(*map(str, one)) for one in asked["records"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise wrong from None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise wrong
    if len(paths) > MAX_PATHS or len(records) > MAX_RECORDS:
        raise RequestRefused(
            "limit", f"cannot look at files: at most {MAX_PATHS} paths, {MAX_RECORDS} packages"
        )
    return paths, records, since


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


OPERATIONS: Operations = {"holdings": held, "files": files}
