"""Reconstruction of a layer's archive from an engine's overlay2 folders and its notes (tar-split).

For each layer the engine stores, as lines of JSON, the bytes of its archive that are not file content, and
the names of the files in between. Reading them takes root on the engine's own host. Folders of layers are
foreign: no link in them is followed. The reader compares the digest; a wrong guess is only slow.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.engine.engine import Engine
from holdfast.engine.image_store import ImageStore

_BLOCK = 1 << 20
_CACHE_ID = re.compile(r"[0-9a-z-]{8,80}")
_FILE, _BYTES = 1, 2


class Unknown(Exception):
    """The layer cannot be reconstructed in this way."""


def folder(engine: Engine) -> Path | None:
    """Return where the engine stores its layers, if its notes are of a known form and can be read."""
    if engine.layers.store() is not ImageStore.OVERLAY2:
        return None
    root = engine.layers.places()[0].parent
    notes = root / "image" / "overlay2" / "layerdb" / "sha256"
    return root if os.access(notes, os.R_OK | os.X_OK) else None


def read(root: Path, chain: str) -> Iterator[bytes]:
    """Yield the archive of the layer that an engine calls `chain`, in pieces.

    Raises:
        Unknown: it cannot be reconstructed; possibly only halfway.
    """
    notes = root / "image" / "overlay2" / "layerdb" / "sha256" / chain.partition(":")[2]
    try:
        name = (notes / "cache-id").read_text().strip()
        if not _CACHE_ID.fullmatch(name):
            raise Unknown(name)
        tree = _Tree(root / "overlay2" / name / "diff")
        try:
            with gzip.open(notes / "tar-split.json.gz") as lines:
                for line in lines:
                    yield from _entry(json.loads(line.decode()), tree)
        finally:
            tree.close()
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise Unknown(str(error)) from error


def _entry(entry: dict[str, object], tree: _Tree) -> Iterator[bytes]:
    if entry["type"] == _BYTES:
        yield base64.b64decode(str(entry["payload"]))
    elif size := int(str(entry.get("size") or 0)):
        raw = entry.get("name_raw")
        name = base64.b64decode(str(raw)) if raw else os.fsencode(str(entry["name"]))
        yield from tree.content(name, size)


class _Tree:
    """The files of one layer. The folder of the last one stays open, since the next is usually beside it."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: tuple[tuple[bytes, ...], int] = ((), os.dup(self._root))

    def close(self) -> None:
        os.close(self._open[1])
        os.close(self._root)

    def content(self, name: bytes, size: int) -> Iterator[bytes]:
        parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
        if not parts or b".." in parts:
            raise Unknown("a name that leads elsewhere")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(parts[-1], flags, dir_fd=self._folder(parts[:-1]))
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                raise Unknown("a file that has changed")
            if size > _BLOCK:
                with suppress(OSError):
                    os.posix_fadvise(descriptor, 0, size, os.POSIX_FADV_SEQUENTIAL)
            while size > 0 and (block := os.read(descriptor, _BLOCK)):
                size -= len(block)
                yield block
        finally:
            os.close(descriptor)

    def _folder(self, parts: tuple[bytes, ...]) -> int:
        if self._open[0] == parts:
            return self._open[1]
        here = os.dup(self._root)
        for part in parts:
            try:
                below = os.open(
                    part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here
                )
            finally:
                os.close(here)
            here = below
        os.close(self._open[1])
        self._open = (parts, here)
        return here
