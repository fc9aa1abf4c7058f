"""A home with snapshots that have plain images only, as captures leave them, made without an engine."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from holdfast.base.home import Home
from holdfast.runtime.storage import packing_request, snapshot_storage
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.store.store import Store
from holdfast.snapshots import files, manifest, storage
from holdfast.snapshots.manifest import Manifest


class PackingHome:
    """Adds snapshots to a home, and knows the bytes of each."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root).create()
        self.store = Store.open(self.home.database, lambda _names: None)
        self.session = self.store.add_session("work", "i", {}).id
        self.memory: dict[str, bytes] = {}

    def add(self, memory: bytes, parent: str | None = None) -> str:
        """Add a snapshot of one process with this memory; return its id."""
        row = self.store.add_snapshot(self.session, "live", parent_snapshot_id=parent)
        folder = self.home.snapshots / row.id
        (folder / "images").mkdir(parents=True)
        (folder / "images" / "pages-1.img").write_bytes(memory)
        (folder / "images" / "core-1.img").write_bytes(b"core" * 100)
        (folder / "baseline").write_bytes(b"not packed")
        entries = files.describe(folder)
        kept = Manifest(
            id=row.id,
            kind="live",
            label=None,
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            session=self.session,
            session_name="work",
            generation=0,
            parent=parent,
            image="sha256:0",
            options={},
            processes=None,
            files=entries,
        )
        manifest.write(folder, kept)
        sizes = snapshot_storage.details(storage.keep(folder, entries), 0)
        details = SnapshotDetails.of(storage=sizes)
        total = int(sizes["own"]) + int(sizes["besides"])
        self.store.update_snapshot(row.id, state="ready", details=details, bytes=total)
        packing_request.mark(self.home)
        self.memory[row.id] = memory
        return row.id

    def stored(self, snapshot: str) -> dict[str, int]:
        """Return the row's description of a snapshot's storage."""
        return dict(self.store.snapshot(snapshot).details.storage or {})

    def packs(self) -> list[str]:
        """Return the names of all files among the packs."""
        return sorted(path.name for path in (self.home.root / "chunks" / "packs").glob("*"))

    def whole(self) -> bool:
        """Check that every snapshot has its memory, from packs alone if it is packed."""
        from holdfast.snapshots import raw

        for snapshot, memory in self.memory.items():
            folder = self.home.snapshots / snapshot
            image = folder / "images" / "pages-1.img"
            if storage.packed(folder):
                image.unlink()
            raw.prepare(self.home.root, folder, manifest.read(folder))
            if image.read_bytes() != memory:
                return False
        return True


def changed(memory: bytes, page: int) -> bytes:
    """Return memory of which one page was changed."""
    at = page * 4096
    return memory[:at] + os.urandom(4096) + memory[at + 4096 :]
