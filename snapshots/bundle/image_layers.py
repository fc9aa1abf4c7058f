"""The layers of an image, uncompressed and to the byte as the engine was given them.

By the digests of these bytes (diff ids) an image names its layers. An engine on this host that keeps them
with overlay2 has written down what its folders do not tell of the archives (tar-split); then single layers
are made again from that. Any other is asked for the whole image, and gives its layers out in an order of its
own. What was read is compared with the diff ids in either case.
"""

from __future__ import annotations

import functools
import hashlib
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from holdfast.engine.engine import Engine
from holdfast.errors import EngineError
from holdfast.snapshots.bundle import tarsplit

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Image:
    """What is needed of an image. `layers` are diff ids, the lowest first."""

    architecture: str
    system: str
    config: dict[str, Any]
    layers: tuple[str, ...]


def look(engine: Engine, ref: str) -> Image:
    """What an image is. Raises EngineError."""
    found = engine.images.described(ref)
    return Image(
        str(found["Architecture"]),
        str(found["Os"]),
        dict(found["Config"] or {}),
        tuple(str(each) for each in found["RootFS"]["Layers"]),
    )


class Hashed:
    """Pieces of a layer, with the digest and size of those that were taken so far.

    `wanted` is which layer it should be, if that is known; whether it is, its digest tells at the end.
    """

    def __init__(self, pieces: Iterable[bytes], wanted: str = "") -> None:
        self._pieces = pieces
        self.wanted = wanted
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        """Of what was read so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._hash.update(piece)
            self.size += len(piece)
            yield piece


def each(engine: Engine, ref: str, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
    """Read layers of an image, in any order, others perhaps, too.

    Args:
        engine: that has it.
        ref: its name or id.
        wanted: diff ids.
        take: is given each layer, reads it to its end, and looks by its digest whether it wants it.

    Raises:
        EngineError: the engine fails, or some are missing.
    """
    left = set(wanted)
    if not left:
        return
    layers = look(engine, ref).layers
    chains = dict(zip(layers, chain_ids(layers), strict=True))
    root = tarsplit.folder(engine)
    for diff_id in wanted if root is not None else ():
        assert root is not None
        with suppress(tarsplit.Unknown):
            layer = Hashed(tarsplit.read(root, chains[diff_id]), diff_id)
            take(layer)
            left.discard(layer.digest)
    if left:
        left -= _saved(engine, ref, take)
    if left:
        raise EngineError(
            f"cannot read the files of a snapshot: {len(left)} of its layers are not as they were",
            hint="`holdfast verify` says what is damaged",
        )


def chain_ids(layers: Sequence[str]) -> Iterator[str]:
    """What an engine calls each layer together with all below it (image-spec, config.md)."""
    chain = ""
    for layer in layers:
        text = f"{chain} {layer}".encode()
        chain = f"sha256:{hashlib.sha256(text).hexdigest()}" if chain else layer
        yield chain


def _saved(engine: Engine, ref: str, take: Callable[[Hashed], None]) -> set[str]:
    met: set[str] = set()
    with closing(engine.images.save(ref, _BLOCK)) as saved:
        stream = cast("BinaryIO", _Joined(saved))
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as archive:
            for member in archive:
                if member.isreg() and _may_be(member.name):
                    data = archive.extractfile(member)
                    assert data is not None
                    layer = Hashed(iter(functools.partial(data.read, _BLOCK), b""))
                    take(layer)
                    met.add(layer.digest)
    return met


def _may_be(name: str) -> bool:
    """layer.tar of old engines; blobs of those since Docker 25, some of which are no layers."""
    return name.endswith("/layer.tar") or name.startswith("blobs/sha256/")


class _Joined:
    """Pieces of a response as a file."""

    def __init__(self, pieces: Any) -> None:
        self._pieces = iter(pieces)
        self._held = b""

    def read(self, size: int) -> bytes:
        found = bytearray(self._held[:size])
        self._held = self._held[size:]
        while len(found) < size and (piece := next(self._pieces, b"")):
            room = size - len(found)
            found += piece[:room]
            self._held = piece[room:]
        return bytes(found)
