"""Addition of a layer to an image, by loading an image of which the engine lacks only that layer.

Layers the engine already has are named and not sent. This is how `docker load` has always worked with the
engine's own image store. That of containerd accepts the same of an OCI layout (`oci`), nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from holdfast.engine.engine import Engine
from holdfast.engine.image_store import ImageStore
from holdfast.errors import EngineError
from holdfast.snapshots.layer import oci
from holdfast.snapshots.layer.archive import END, NewLayer, document
from holdfast.snapshots.layer.oci import Blob, KnownBlobs, OciLayout

BASE_LABEL = "holdfast.base-layers"
"""Number of the image's layers that do not come from snapshots."""
WRITTEN_LABEL = "holdfast.written-from"
"""The position of the first layer of each container, with commas in between."""
_POSITIONS = re.compile(r"[0-9]{1,5}(,[0-9]{1,5}){0,199}")


def ref_of(snapshot_id: str) -> str:
    """Return the name of a snapshot's image."""
    return f"holdfast/snapshot:{snapshot_id}"


def base_layers(config: Mapping[str, Any], layers: int) -> int:
    """Return how many of an image's layers do not come from snapshots; all, unless its label is one of ours.

    Args:
        config: the image's settings for containers; a stranger can have made it.
        layers: how many it has.
    """
    count = str((config.get("Labels") or {}).get(BASE_LABEL, ""))
    return min(int(count), layers) if re.fullmatch("[0-9]{1,5}", count) else layers


def parts(config: Mapping[str, Any], layers: int) -> list[tuple[int, int]]:
    """Return the ranges of layers that belong together, as all layers of one container do. Pure.

    Args:
        config: the image's settings for containers; a stranger can have made it.
        layers: how many it has.
    """
    starts = [each for each in written_from(config) if each < layers]
    first = starts[0] if starts else layers
    alone = [(position, position + 1) for position in range(first)]
    return [*alone, *zip(starts, [*starts[1:], layers], strict=True)] if starts else alone


def written_from(config: Mapping[str, Any]) -> list[int]:
    """Return the positions of the lowest layers of containers; none, unless the label is one of ours."""
    text = str((config.get("Labels") or {}).get(WRITTEN_LABEL, ""))
    return sorted({int(each) for each in text.split(",")}) if _POSITIONS.fullmatch(text) else []


@dataclass(frozen=True, slots=True)
class ParentImage:
    """An image to add a layer to. `layers` are digests, the lowest first.

    `blobs` is how the store of containerd has them; None for the engine's own.
    """

    architecture: str
    system: str
    config: Mapping[str, Any]
    layers: tuple[str, ...]
    blobs: tuple[Blob, ...] | None = None

    @property
    def base(self) -> int:
        """Number of the layers that a snapshot's layer must not replace."""
        return base_layers(self.config, len(self.layers))

    def labels(self, first: int) -> dict[str, str]:
        """Return the labels of an image whose layers from the position `first` on are of a new container."""
        earlier = [each for each in written_from(self.config) if each < first]
        return {BASE_LABEL: str(self.base), WRITTEN_LABEL: ",".join(map(str, [*earlier, first]))}

    def without(self, count: int) -> ParentImage:
        """Return the parent without its topmost layers."""
        kept = len(self.layers) - count
        return replace(self, layers=self.layers[:kept], blobs=self.blobs and self.blobs[:kept])


def parent(engine: Engine, image_id: str) -> ParentImage:
    """Return the required facts of an image.

    Raises:
        EngineError: the engine no longer has it.
    """
    found = engine.images.described(image_id)
    return ParentImage(
        str(found["Architecture"]), str(found["Os"]), found["Config"], tuple(found["RootFS"]["Layers"])
    )


@dataclass(frozen=True, slots=True)
class ExtendedImage:
    """An image with one more layer than its parent. `layers` and `blobs` as in `ParentImage`."""

    id: str
    layers: tuple[str, ...]
    blobs: tuple[Blob, ...] | None = None


def below(engine: Engine, image_id: str, known: KnownBlobs) -> ParentImage | None:
    """Return the facts of an image needed to add a layer to it; None if the engine's store does not allow
    that.

    Raises:
        EngineError: the engine no longer has it.
    """
    store = engine.layers.store()
    if store is ImageStore.OTHER:
        return None
    found = parent(engine, image_id)
    if store is ImageStore.OVERLAY2:
        return found
    blobs = known.get(image_id, found.layers)
    if blobs is None:
        blobs = oci.blobs(engine, image_id, found.layers)
        if blobs is None:
            return None
        known.add(image_id, found.layers, blobs)
    return replace(found, blobs=blobs)


def add(
    engine: Engine, below: ParentImage, archive: NewLayer, ref: str, labels: Mapping[str, str]
) -> ExtendedImage:
    """Make an image of a parent and one more layer.

    Args:
        engine: the engine that has the parent.
        below: the parent.
        archive: the layer.
        ref: the name of the image.
        labels: added to those of the parent; with BASE_LABEL among them, the layer can be one to keep.

    Raises:
        EngineError: the engine refuses.
        OSError: the layer cannot be read.
    """
    what = "keep the files of the session"
    if below.blobs is None:
        made = bytearray()

        def config() -> bytes:
            made[:] = config_of(below, labels, archive.digest)
            return bytes(made)

        engine.images.load(_read(len(below.layers), [archive], config, ref), what)
        return ExtendedImage(id_of(made), (*below.layers, archive.digest))
    layout = OciLayout(below.blobs, lambda digest: config_of(below, labels, digest), ref)
    engine.images.load(layout.read(archive), what)
    # containerd takes descriptors for granted: what was collected meanwhile would be missed much later.
    if not engine.layers.has_blobs(each.digest for each in layout.layers):
        raise EngineError(f"cannot {what}: a layer of its image was removed from the engine in the meantime")
    return ExtendedImage(layout.id, (*below.layers, archive.digest), tuple(layout.layers))


def id_of(config: bytes | bytearray) -> str:
    """Return the id that the engine's own store gives an image with this config."""
    return f"sha256:{hashlib.sha256(config).hexdigest()}"


def as_archive(
    present: int, layers: Sequence[NewLayer], config: bytes, ref: str, check: Callable[[], None]
) -> Iterator[bytes]:
    """Yield an image of a known config as a tar archive for the engine's own store.

    Args:
        present: how many of its layers the engine has.
        layers: the others, the lowest first.
        config: the config.
        ref: the name of the image.
        check: called when all layers have been read; the archive remains incomplete if it raises an error.
    """

    def checked() -> bytes:
        check()
        return config

    return _read(present, layers, checked, ref)


def _read(present: int, layers: Sequence[NewLayer], config: Callable[[], bytes], ref: str) -> Iterator[bytes]:
    """Yield the archive: the layers first, because the name of the config can depend on their digests."""
    names = ["new/layer.tar", *(f"new/{number}/layer.tar" for number in range(1, len(layers)))]
    for name, layer in zip(names, layers, strict=True):
        yield from layer.read_as(name)
    text = config()
    described = f"{hashlib.sha256(text).hexdigest()}.json"
    there = [f"{number}/layer.tar" for number in range(present)]
    manifest = [{"Config": described, "RepoTags": [ref], "Layers": [*there, *names]}]
    yield document(described, text)
    yield document("manifest.json", json.dumps(manifest).encode())
    yield END


def config_of(below: ParentImage, labels: Mapping[str, str], layer: str) -> bytes:
    """Return the config of an image of a parent and one more layer, which is made now.

    Args:
        below: the parent.
        labels: added to the labels of the parent.
        layer: the digest of the layer.
    """
    layers = [*below.layers, layer]
    created = datetime.now(UTC).isoformat()
    added = {BASE_LABEL: str(below.base), **labels}
    config = {**below.config, "Labels": {**(below.config.get("Labels") or {}), **added}}
    return json.dumps(
        {
            "architecture": below.architecture,
            "os": below.system,
            "created": created,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": layers},
            "history": [{"created": created, "created_by": "holdfast"} for _ in layers],
        }
    ).encode()
