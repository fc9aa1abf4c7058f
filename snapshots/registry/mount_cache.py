"""A cache of repositories in a registry that had a blob, so that it can be mounted instead of sent.

Only a cache: its answers are checked with the registry, and what it does not know is only sent once more.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from holdfast.base import private_files

LEAST = 1 << 20
"""Smallest blob remembered: a smaller one is sent as quickly as it is asked for."""
MOST = 5000
"""Blobs remembered for a registry, those seen last."""
MAX_BYTES = 4 << 20


class BlobPlaces:
    """The places of blobs in one registry; with no folder, nothing is remembered."""

    def __init__(self, folder: Path | None, host: str) -> None:
        self._path = None if folder is None else folder / f"places-{_name(host)}.json"
        self._seen: dict[str, str] = {}
        if self._path is not None:
            with suppress(OSError, ValueError):
                with self._path.open("rb") as file:
                    found = json.loads(file.read(MAX_BYTES))
                self._seen = {str(digest): str(place) for digest, place in found.items()}

    def other(self, digest: str, repository: str) -> str | None:
        """Return another repository that had it."""
        found = self._seen.get(digest)
        return None if found == repository else found

    def add(self, digest: str, repository: str, size: int) -> None:
        """Record that this repository has it."""
        if size >= LEAST and self._seen.get(digest) != repository:
            self._seen.pop(digest, None)
            self._seen[digest] = repository

    def save(self) -> None:
        """Remember it beyond this process. Losing it costs time only."""
        if self._path is None:
            return
        kept = dict(list(self._seen.items())[-MOST:])
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.replace(self._path, json.dumps(kept), durable=False)


def _name(host: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in host)
