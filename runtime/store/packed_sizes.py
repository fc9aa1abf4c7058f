"""Unpacked snapshots, and the sizes of packed ones and of their layers: read and written without the store.

The background packer starts often and has little to do; it loads little.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from holdfast.runtime.store import peek

_UNPACKED = (
    "SELECT id, parent_snapshot_id, COALESCE(json_extract(details, '$.storage.raw'), 0) "
    "FROM snapshots WHERE kind = 'live' AND state = 'ready' "
    "AND json_extract(details, '$.storage.packed') = 0 ORDER BY created_at, id"
)

_LAYERED = (
    "SELECT id, bytes, details FROM snapshots "
    "WHERE state = 'ready' AND json_extract(details, '$.storage.layers') IS NOT NULL ORDER BY created_at, id"
)


class Unpacked(NamedTuple):
    """An unpacked snapshot, its predecessor, which it probably resembles, and its bytes."""

    id: str
    parent: str | None
    bytes: int


def unpacked(database: Path) -> list[Unpacked]:
    """Return the snapshots that are not packed yet, oldest first.

    Raises:
        sqlite3.Error: the database cannot be read, or is of another version.
    """
    with closing(peek.opened(database)) as db:
        return [Unpacked(*row) for row in db.execute(_UNPACKED)]


def record(database: Path, snapshot: str, *, own: int, shared: int, packed: bool = True) -> None:
    """Record a snapshot's size, unless it is gone, or of a version that recorded no sizes.

    In one step: no change that another process makes to the snapshot is lost.

    Args:
        database: the file.
        snapshot: its id.
        own: bytes stored for it alone.
        shared: bytes of pages that older snapshots also need.
        packed: whether its pages are in packs.

    Raises:
        sqlite3.Error: the database cannot be written.
    """
    with closing(peek.opened(database, "rw")) as db:
        db.isolation_level = None
        db.execute("BEGIN IMMEDIATE")
        row = db.execute("SELECT details FROM snapshots WHERE id = ?", (snapshot,)).fetchone()
        details = json.loads(row[0]) if row is not None else {}
        known = details.get("storage")
        if isinstance(known, dict):
            sizes = {**known, "own": own, "shared": shared, "packed": packed}
            if sizes != known:
                details["storage"] = sizes
                total = int(known["besides"]) + own
                db.execute(
                    "UPDATE snapshots SET bytes = ?, details = ? WHERE id = ?",
                    (total, json.dumps(details), snapshot),
                )
        db.execute("COMMIT")


def recount_layers(database: Path) -> None:
    """Charge each layer to the oldest snapshot whose image has it; called when snapshots were removed.

    Raises:
        sqlite3.Error: the database cannot be read or written.
    """
    with closing(peek.opened(database, "rw")) as db:
        db.isolation_level = None
        db.execute("BEGIN IMMEDIATE")
        seen: set[str] = set()
        for snapshot, size, text in db.execute(_LAYERED).fetchall():
            details = json.loads(text)
            stored = details["storage"]
            files = sum(each for digest, each in stored["layers"].items() if digest not in seen)
            seen.update(stored["layers"])
            if more := files - stored["files"]:
                details["storage"] = {**stored, "files": files, "besides": stored["besides"] + more}
                db.execute(
                    "UPDATE snapshots SET bytes = ?, details = ? WHERE id = ?",
                    (size + more, json.dumps(details), snapshot),
                )
        db.execute("COMMIT")
