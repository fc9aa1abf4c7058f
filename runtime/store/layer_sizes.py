"""The snapshot charged for a layer that several images share: the oldest remaining one.

Written without the store, like `packed_sizes`.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from holdfast.runtime.store import peek

if TYPE_CHECKING:
    from pathlib import Path

_LAYERED = (
    "SELECT id, bytes, details FROM snapshots "
    "WHERE state = 'ready' AND json_extract(details, '$.storage.layers') IS NOT NULL ORDER BY created_at, id"
)


def recount(database: Path) -> None:
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
