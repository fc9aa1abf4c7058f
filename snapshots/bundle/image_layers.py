"""The layers of an image, uncompressed and byte for byte as the engine received them.

An image names its layers by the digests of these bytes (diff ids). An engine on this host that stores them
with overlay2 has recorded the parts of the archives that its folders lack (tar-split): as lines of JSON, the
bytes that are not file content, and the names of the files in between. Single layers are then rebuilt from
that; reading it takes root on the engine's own host, and no link in its folders is followed.

Any other engine is asked for the whole image, and returns its layers in an order of its own, some of them
compressed. In either case the bytes read are compared with the diff ids: a wrong guess is only slow.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import itertools
import json
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from holdfast.engine.engine import Engine
from holdfast.engine.image_store import ImageStore, chain_ids
from holdfast.engine.joined import Joined
from holdfast.errors import EngineError
from holdfast.snapshots.bundle import bundle_segments

_BLOCK = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CACHE_ID = re.compile(r"[0-9a-z-]{8,80}")
_FILE, _BYTES = 1, 2


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The required facts of an image. `layers` are diff ids, the lowest first."""

    architecture: str
    system: str
    config: dict[str, Any]
    layers: tuple[str, ...]


def look(engine: Engine, ref: str) -> ImageFacts:
    """Inspect an image.

    Raises:
        EngineError: the engine fails, or does not have such an image.
    """
    found = engine.images.described(ref)
    return ImageFacts(
        str(found["Architecture"]),
        str(found["Os"]),
        dict(found["Config"] or {}),
        tuple(str(each) for each in found["RootFS"]["Layers"]),
    )


class Hashed:
    """Pieces of a layer, with the digest and size of those consumed so far.

    `wanted` is the layer it should be, if that is known; its digest at the end shows whether it is.
    """

    def __init__(self, pieces: Iterable[bytes], wanted: str = "") -> None:
        self._pieces = pieces
        self.wanted = wanted
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        """The digest of the bytes read so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._hash.update(piece)
            self.size += len(piece)
            yield piece


def each(engine: Engine, ref: str, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
    """Read layers of an image, in any order; perhaps also others.

    Args:
        engine: the engine that has it.
        ref: its name or id.
        wanted: diff ids.
        take: receives each layer, reads it to its end, and decides by its digest whether it needs it.

    Raises:
        EngineError: the engine fails, or some are missing.
    """
    left = set(wanted)
    if not left:
        return
    layers = look(engine, ref).layers
    chains = dict(zip(layers, chain_ids(layers), strict=True))
    root = overlay_folder(engine)
    for diff_id in wanted if root is not None else ():
        assert root is not None
        with suppress(UnknownLayer):
            layer = Hashed(bundle_segments.even(read_overlay(root, chains[diff_id])), diff_id)
            take(layer)
            left.discard(layer.digest)
    if left:
        left -= _saved(engine, ref, take)
    if left:
        raise EngineError(
            f"cannot read the files of a snapshot: {len(left)} of its layers have changed",
            hint="`holdfast verify` says what is damaged",
        )


def _saved(engine: Engine, ref: str, take: Callable[[Hashed], None]) -> set[str]:
    met: set[str] = set()
    with closing(engine.images.save(ref, _BLOCK)) as saved:
        stream = cast("BinaryIO", Joined(saved))
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as archive:
            for member in archive:
                if member.isreg() and _may_be(member.name):
                    data = archive.extractfile(member)
                    assert data is not None
                    layer = Hashed(_plain(iter(functools.partial(data.read, _BLOCK), b"")))
                    take(layer)
                    met.add(layer.digest)
    return met


def _plain(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress a blob if it is compressed: containerd stores layers in their received form.

    Raises:
        EngineError: it is damaged.
    """
    first = next(pieces, b"")
    blob = itertools.chain((first,), pieces)
    try:
        if first.startswith(_GZIP):
            yield from _gunzipped(blob)
        elif first.startswith(_ZSTD):
            reader = zstandard.ZstdDecompressor().stream_reader(
                cast("BinaryIO", Joined(blob)), read_across_frames=True
            )
            yield from iter(functools.partial(reader.read, _BLOCK), b"")
        else:
            yield from blob
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise EngineError(f"cannot read the files of a snapshot: a layer is damaged ({error})") from error


def _gunzipped(blob: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress one or more members of gzip, never more than a block per step."""
    with gzip.GzipFile(fileobj=cast("BinaryIO", Joined(blob)), mode="rb") as file:
        yield from iter(functools.partial(file.read, _BLOCK), b"")


def _may_be(name: str) -> bool:
    """Accept layer.tar of old engines, and blobs of those since Docker 25, some of which are not layers."""
    return name.endswith("/layer.tar") or name.startswith("blobs/sha256/")


class UnknownLayer(Exception):
    """The layer cannot be reconstructed in this way."""


def overlay_folder(engine: Engine) -> Path | None:
    """Return where the engine stores its layers, if its notes are of a known form and can be read."""
    if engine.layers.store() is not ImageStore.OVERLAY2:
        return None
    root = engine.layers.places()[0].parent
    notes = root / "image" / "overlay2" / "layerdb" / "sha256"
    return root if os.access(notes, os.R_OK | os.X_OK) else None


def read_overlay(root: Path, chain: str) -> Iterator[bytes]:
    """Yield the archive of the layer that an engine calls `chain`, in pieces.

    Raises:
        Unknown: it cannot be reconstructed; possibly only halfway.
    """
    notes = root / "image" / "overlay2" / "layerdb" / "sha256" / chain.partition(":")[2]
    try:
        name = (notes / "cache-id").read_text().strip()
        if not _CACHE_ID.fullmatch(name):
            raise UnknownLayer(name)
        tree = _LayerTree(root / "overlay2" / name / "diff")
        try:
            with gzip.open(notes / "tar-split.json.gz") as lines:
                for line in lines:
                    yield from _entry(json.loads(line.decode()), tree)
        finally:
            tree.close()
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise UnknownLayer(str(error)) from error


def _entry(entry: dict[str, object], tree: _LayerTree) -> Iterator[bytes]:
    if entry["type"] == _BYTES:
        yield base64.b64decode(str(entry["payload"]))
    elif size := int(str(entry.get("size") or 0)):
        raw = entry.get("name_raw")
        name = base64.b64decode(str(raw)) if raw else os.fsencode(str(entry["name"]))
        yield from tree.content(name, size)


class _LayerTree:
    """The files of one layer. The folder of the last one stays open, for the next one's sake."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: tuple[tuple[bytes, ...], int] = ((), os.dup(self._root))

    def close(self) -> None:
        os.close(self._open[1])
        os.close(self._root)

    def content(self, name: bytes, size: int) -> Iterator[bytes]:
        parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
        if not parts or b".." in parts:
            raise UnknownLayer("a name that leads elsewhere")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(parts[-1], flags, dir_fd=self._folder(parts[:-1]))
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                raise UnknownLayer("a file that has changed")
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
