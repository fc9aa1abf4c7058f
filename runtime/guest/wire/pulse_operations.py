"""The operations on the pulse: all activity, one process, one file; and the sizes of files."""

from __future__ import annotations

import json
import os
import stat
from pathlib import PurePosixPath
from typing import Any

from holdfast.base.value_classes import replace
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.layout import MAIN
from holdfast.runtime.guest.pulse import gather
from holdfast.runtime.guest.pulse.descriptors import ScanBounds
from holdfast.runtime.guest.pulse.gather import PARTS, PulseGatherer
from holdfast.runtime.guest.pulse.processes import look_closely
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.protocol import MAX_PAYLOAD

MAX_PATHS = 20_000
MAX_PIDS = 1 << 22
_ALL = frozenset(PARTS)


def operations(guest: Guest) -> Operations:
    """Return the operations, which remember the last look."""
    gatherer = PulseGatherer(guest)

    async def pulse(_: Guest, call: ClientCall) -> None:
        parts, pid = _parts(call), call.frame.head.get("pid")
        path = call.optional("file", 4096)
        everything = call.frame.head.get("files") is True or pid is not None
        wanted: ScanBounds = gather.WHOLE if everything else gather.BRIEF
        extra: dict[str, Any] = {}
        if path is not None:
            path = os.path.normpath(PurePosixPath(guest.shell(MAIN).kept.cwd()) / path)
            status = gather.file_status(path)
            same = (status.pop("device"), status.pop("inode")) if status else None
            extra["file"] = {"path": path, "status": status}
            wanted = replace(gather.WHOLE, others=False, path=path, same=same)
        found = await gatherer.gather(parts, wanted)
        if pid is not None:
            extra["detail"] = look_closely(call.integer("pid", low=1, high=MAX_PIDS))
        data = json.dumps({**found, **extra}, separators=(",", ":")).encode()
        if len(data) > MAX_PAYLOAD:
            raise RequestRefused(
                "limit", "cannot report the pulse: it is too large; ask for some of its parts"
            )
        await call.finish("pulse", data)

    return {"pulse": pulse, "sizes": sizes}


async def sizes(_: Guest, call: ClientCall) -> None:
    """Send the sizes of a list of paths: null for missing ones and other kinds than regular files."""
    try:
        paths = json.loads(call.frame.payload)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or len(paths) > MAX_PATHS:
        raise RequestRefused("invalid", f"cannot report sizes: give a list of at most {MAX_PATHS} paths")
    await call.finish("sizes", json.dumps([_size(path) for path in paths]).encode())


def _size(path: object) -> int | None:
    try:
        status = os.lstat(str(path))
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _parts(call: ClientCall) -> frozenset[str]:
    wanted = call.frame.head.get("parts")
    if wanted is None:
        return _ALL
    if not isinstance(wanted, list) or not all(isinstance(part, str) for part in wanted):
        raise RequestRefused("invalid", "cannot report the pulse: parts must be a list of names")
    if unknown := set(wanted) - _ALL:
        raise RequestRefused(
            "invalid", f"cannot report {', '.join(sorted(unknown))}: the parts are {', '.join(PARTS)}"
        )
    return frozenset(wanted)
