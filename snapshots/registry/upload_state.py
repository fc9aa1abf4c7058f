"""State of uploads in progress, so that the next process can resume them.

A file for each, named by a digest of where it goes; it is gone when the upload is done. Holds no credentials.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

from holdfast.base import private_files
from holdfast.snapshots.registry.reference import Reference

KEPT_SECONDS = 7 * 24 * 3600
"""Registries forget an upload after a week by default."""
MAX_NOTE = 1 << 16


class Notes:
    """The uploads in progress to one repository; with no folder, nothing is remembered."""

    def __init__(self, folder: Path | None, reference: Reference) -> None:
        self.folder = folder
        self._where = f"{reference.host}/{reference.repository}"
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._forget_old(folder)

    def location(self, digest: str) -> str | None:
        """Return where the upload of a blob was left."""
        path = self._path(digest)
        if path is None:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError):
            with path.open("rb") as file:
                note = json.loads(file.read(MAX_NOTE))
            return str(note["location"]) if note["digest"] == digest else None
        return None

    def keep(self, digest: str, location: str) -> None:
        """Remember where an upload continues. It is only an aid: write failures are ignored."""
        path = self._path(digest)
        if path is not None:
            with suppress(OSError):
                text = json.dumps({"digest": digest, "location": location})
                private_files.replace(path, text, durable=False)

    def drop(self, digest: str) -> None:
        """Forget an upload that is done or lost."""
        path = self._path(digest)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{hashlib.sha256(f'{self._where}@{digest}'.encode()).hexdigest()[:32]}.json"

    def _forget_old(self, folder: Path) -> None:
        oldest = time.time() - KEPT_SECONDS
        for path in folder.glob("*"):
            with suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
