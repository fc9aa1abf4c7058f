"""Outgoing image layers: read from the engine, compressed, and sent where they are missing.

Compressing takes longest; its result is remembered, so that a layer which the other side has is not even
read. Knows no snapshots.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.base import private_files
from holdfast.engine.engine import Engine
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.transfer.searched_layers import SearchedLayers
from holdfast.snapshots.bundle import bundle_segments, image_layers, media
from holdfast.snapshots.bundle.endpoints import DIGEST, BlobDescriptor, BundleDestination
from holdfast.snapshots.bundle.image_layers import Hashed
from holdfast.snapshots.bundle.sealing import Sealing

KINDS = {
    "gzip": (media.LAYER_GZIP, bundle_segments.gzip, f"gzip-isal-{bundle_segments.GZIP_LEVEL}"),
    "zstd": (media.LAYER_ZSTD, bundle_segments.zstd, f"zstd-{bundle_segments.ZSTD_LEVEL}"),
}
"""Media type, command, and name in the cache: another level gives other bytes."""


class Remembered:
    """A cache of compressed layers by diff id: digest, size, and size before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[object]] = {}
        with suppress(OSError, ValueError):
            found = json.loads(path.read_text())
            if isinstance(found, dict):
                self._known = found

    def get(self, key: str, media_type: str) -> BlobDescriptor | None:
        """Return a layer's earlier compressed form."""
        match self._known.get(key):
            case [str(digest), int(size), int(raw)] if DIGEST.fullmatch(digest):
                return BlobDescriptor(media_type, digest, size, {media.RAW_BYTES: str(raw)})
        return None

    def add(self, key: str, made: BlobDescriptor) -> None:
        """Remember one. Losing it only costs time."""
        self._known[key] = [made.digest, made.size, int(made.annotations[media.RAW_BYTES])]
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(self._path, json.dumps(self._known), durable=False)


class OutgoingLayers:
    """The layers of one image, on their way to one destination."""

    def __init__(
        self,
        engine: Engine,
        compression: str,
        scratch: Path,
        remembered: Remembered,
        seal: Sealing | None = None,
        searched: SearchedLayers | None = None,
    ) -> None:
        if compression not in KINDS:
            raise InvalidArgument(
                f"cannot compress layers with {compression[:40]!r}: it is not a known compression",
                hint="gzip or zstd",
            )
        self._engine = engine
        self._scratch = scratch
        self._remembered = remembered
        self._seal = seal
        self._searched = searched
        self._media_type, self._pack, self._name = KINDS[compression]
        if seal is not None:
            self._media_type += media.ENCRYPTED

    def send(
        self,
        ref: str,
        diff_ids: Sequence[str],
        destination: BundleDestination,
        report: Callable[[int], None],
    ) -> list[BlobDescriptor]:
        """Send the layers that the destination lacks; return descriptors of all of them, the lowest first.

        `report` is called with the uncompressed size of each layer when it is done.
        """
        done: dict[str, BlobDescriptor] = {}
        there = frozenset(diff_ids[: destination.layers_there(diff_ids)])
        for diff_id in diff_ids:
            known = (self._uncompressed(diff_id) if diff_id in there else None) or self._known(diff_id)
            if known is not None and (diff_id in there or destination.has(known)):
                done[diff_id] = known
                report(int(known.annotations[media.RAW_BYTES]))

        def take(layer: Hashed) -> None:
            stays = layer.wanted in there
            made = self._named(layer) if stays else self._compress(layer)
            if layer.digest in diff_ids and layer.digest not in done:
                if layer.digest not in there and not destination.has(made):
                    with (self._scratch / "layer").open("rb") as packed:
                        destination.put(made, packed)
                done[layer.digest] = made
                if self._seal is None:
                    self._remembered.add(f"{'tar' if stays else self._name} {layer.digest}", made)
                report(layer.size)

        missing = [diff_id for diff_id in dict.fromkeys(diff_ids) if diff_id not in done]
        image_layers.each(self._engine, ref, missing, take)
        return [done[diff_id] for diff_id in diff_ids]

    def _known(self, diff_id: str) -> BlobDescriptor | None:
        """Return an earlier compressed form; never for encrypted layers, which differ each time."""
        return None if self._seal else self._remembered.get(f"{self._name} {diff_id}", self._media_type)

    def _uncompressed(self, diff_id: str) -> BlobDescriptor | None:
        """Return a layer that need not be sent, as it was described earlier."""
        return self._remembered.get(f"tar {diff_id}", media.LAYER)

    def _named(self, layer: Hashed) -> BlobDescriptor:
        """Read a layer that need not be sent: its descriptor says its size, and compressing takes longest."""
        for _ in self._read(layer):
            pass
        return BlobDescriptor(media.LAYER, layer.digest, layer.size, {media.RAW_BYTES: str(layer.size)})

    def _read(self, layer: Hashed) -> Iterable[bytes]:
        return layer if self._searched is None else self._searched.passing(layer)

    def _compress(self, layer: Hashed) -> BlobDescriptor:
        digest, size = hashlib.sha256(), 0
        try:
            with private_files.create(self._scratch / "layer") as file:
                packed = self._pack(self._read(layer))
                for piece in packed if self._seal is None else self._seal.seal(packed):
                    digest.update(piece)
                    size += len(piece)
                    file.write(piece)
        except OSError as error:
            raise StoreError(f"cannot write in {self._scratch}: {error.strerror or error}") from error
        return BlobDescriptor(
            self._media_type, f"sha256:{digest.hexdigest()}", size, {media.RAW_BYTES: str(layer.size)}
        )
