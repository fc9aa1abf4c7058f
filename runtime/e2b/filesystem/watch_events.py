"""Changes of files as the events of this wire.  Pure.

A file that is made with content is CREATE, CHMOD and WRITE: E2B's server gives each to its user. What moves
is RENAME for its old name, if the watch saw that, and CREATE for the new one. The files in which uploads
arrive are not reported.
"""

from __future__ import annotations

from typing import Any

from holdfast.runtime.e2b.filesystem.entry_info import OwnerNames, clean, entry, shown
from holdfast.runtime.files.file_tree import WatchedChange

CREATE, WRITE, REMOVE, RENAME, CHMOD = (
    f"EVENT_TYPE_{name}" for name in ("CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD")
)
START: dict[str, Any] = {"start": {}}
KEEPALIVE: dict[str, Any] = {"keepalive": {}}


def gone() -> dict[str, Any]:
    """Return the event of a watched folder that is not there any more."""
    return {"name": ".", "type": REMOVE}


def events(change: WatchedChange, root: str, names: OwnerNames | None = None) -> list[dict[str, Any]]:
    """Return the events of a change below `root`; with `names` they describe what is there now."""
    below = _below(change.path, root)
    told: dict[str, Any] = {"name": shown(below)}
    if names is not None and change.file is not None:
        told["entry"] = entry(clean(change.path), change.file, names)
    return [{**told, "type": kind} for kind in _kinds(change)]


def _kinds(change: WatchedChange) -> list[str]:
    file = change.file
    if change.kind == "removed":
        return [RENAME if change.moved else REMOVE]
    if change.kind == "created":
        filled = file is not None and file.kind == "file" and file.size > 0
        return [CREATE, CHMOD, WRITE] if filled else [CREATE]
    # The kernel has one event for rights, owner and times.
    chmod = change.attributes or not change.content
    return [WRITE] * change.content + [CHMOD] * chmod


def _below(path: str, root: str) -> str:
    if path == root:
        return "."
    return path.removeprefix(root.rstrip("/") + "/")
