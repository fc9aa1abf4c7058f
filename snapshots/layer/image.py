"""Addition of a layer to an image, by loading an image of which the engine lacks only that layer.

Layers the engine already has are named and not sent. This is how `docker load` has always worked with the
engine's own image store; the containerd store needs all of them, and is not used in this way.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.engine.engine import Engine
from holdfast.snapshots.layer.archive import LayerArchive

BASE_LABEL = "holdfast.base-layers"
"""Number of the image's layers that do not come from snapshots."""


@dataclass(frozen=True, slots=True)
class Parent:
    """An image to add a layer to. `layers` are digests, the lowest first."""

    architecture: str
    system: str
    config: Mapping[str, Any]
    layers: tuple[str, ...]

    @property
    def base(self) -> int:
        """Number of the layers that a snapshot's layer must not replace."""
        count = str((self.config.get("Labels") or {}).get(BASE_LABEL, ""))
        return int(count) if count.isdecimal() else len(self.layers)

    def without(self, count: int) -> Parent:
        """Return the parent without its topmost layers."""
        kept = self.layers[: len(self.layers) - count]
        return Parent(self.architecture, self.system, self.config, kept)


def parent(engine: Engine, image_id: str) -> Parent:
    """Return what is needed of an image.

    Raises:
        EngineError: the engine no longer has it.
    """
    found = engine.images.described(image_id)
    return Parent(
        str(found["Architecture"]), str(found["Os"]), found["Config"], tuple(found["RootFS"]["Layers"])
    )


def usable(info: Mapping[str, Any]) -> bool:
    """Return whether an engine with this description accepts images of which it already has most layers."""
    status = dict(item for item in info.get("DriverStatus") or [] if len(item) == 2)
    return info.get("Driver") == "overlay2" and "containerd" not in str(status.get("driver-type", ""))


def add(engine: Engine, below: Parent, archive: LayerArchive, ref: str, labels: Mapping[str, str]) -> str:
    """Make an image of a parent and one more layer, tagged ref, and return its id.

    Raises:
        EngineError: the engine refuses.
        OSError: the layer cannot be read.
    """
    made = _Making(below, archive, ref, {**labels, BASE_LABEL: str(below.base)})
    engine.images.load(made.read(), "keep the files of the session")
    return made.id


class _Making:
    def __init__(self, below: Parent, archive: LayerArchive, ref: str, labels: Mapping[str, str]) -> None:
        self._below = below
        self._archive = archive
        self._ref = ref
        self._labels = labels
        self.id = ""

    def read(self) -> Iterator[bytes]:
        """Yield the image as a tar archive: the new layer first, because its name depends on its digest."""
        yield _member("new/layer.tar", self._archive.size)
        yield from self._archive.read()
        yield b"\0" * (-self._archive.size % tarfile.BLOCKSIZE)
        config = json.dumps(self._config()).encode()
        digest = hashlib.sha256(config).hexdigest()
        self.id = f"sha256:{digest}"
        there = [f"{number}/layer.tar" for number in range(len(self._below.layers))]
        manifest = [
            {"Config": f"{digest}.json", "RepoTags": [self._ref], "Layers": [*there, "new/layer.tar"]}
        ]
        last = io.BytesIO()
        with tarfile.open(fileobj=last, mode="w") as archive:
            for name, data in ((f"{digest}.json", config), ("manifest.json", json.dumps(manifest).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        yield last.getvalue()

    def _config(self) -> dict[str, Any]:
        below = self._below
        layers = [*below.layers, self._archive.digest]
        created = datetime.now(UTC).isoformat()
        config = {**below.config, "Labels": {**(below.config.get("Labels") or {}), **self._labels}}
        return {
            "architecture": below.architecture,
            "os": below.system,
            "created": created,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": layers},
            "history": [{"created": created, "created_by": "holdfast"} for _ in layers],
        }


def _member(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)
