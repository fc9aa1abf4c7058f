"""Takes bundles apart and forges others, as an owner of a trusted key could."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blake3 import blake3

from holdfast.snapshots.bundle import bundle_segments, form, media, signing
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin
from holdfast.snapshots.bundle.sealing import Seal, Sealing
from holdfast.snapshots.bundle.signing import SigningKey

Change = Callable[["Forgery"], None]


class Forgery:
    """The documents of a bundle as plain values, to be changed. Its image layers are left out: an engine that
    has them never asks for them.
    """

    def __init__(self, path: Path) -> None:
        with FileOrigin(path) as origin:
            found = form.parse(form.BundleIndex, origin.index(), "index")
            image, snapshot = form.both(found)

            def read(blob: BlobDescriptor) -> bytes:
                with origin.open(blob) as stream:
                    return stream.read()

            self.annotations = dict(found.annotations)
            self.image: dict[str, Any] = json.loads(read(image))
            self.image_config: dict[str, Any] = json.loads(
                read(form.NamedBlob.model_validate(self.image["config"]).descriptor())
            )
            manifest = form.parse(form.ImageManifest, read(snapshot), "manifest")
            self.config: dict[str, Any] = json.loads(read(manifest.config.descriptor()))
            segments = [
                bundle_segments.open_segment(read(layer.descriptor()), segment["bytes"])
                for layer, segment in zip(manifest.layers, self.config["segments"], strict=True)
            ]
        self.files: dict[str, bytes] = {
            file["name"]: b"".join(
                bytes(part["bytes"])
                if part["segment"] is None
                else segments[part["segment"]][part["offset"] : part["offset"] + part["bytes"]]
                for part in file["parts"]
            )
            for file in self.config["files"]
        }
        self.hollow: dict[str, int] = {}
        self.blobs: list[tuple[BlobDescriptor, bytes]] = []
        self.layers: list[dict[str, Any]] | None = None
        self.subject: BlobDescriptor | None = None
        self.after: Callable[[dict[str, Any]], None] = lambda _config: None

    @property
    def snapshot(self) -> dict[str, Any]:
        """The snapshot's manifest."""
        return dict(self.config)["snapshot"]  # type: ignore[no-any-return]

    def empty(self) -> None:
        """Make all memory zeros, so that a bundle is small and quickly made."""
        for name in [name for name in self.files if name.startswith("images/pages-")]:
            data = bytes(len(self.files.pop(name)))
            self.hollow[name] = len(data)
            entry = next(one for one in self.snapshot["files"] if one["name"] == name)
            entry["blake3"] = blake3(data).hexdigest()

    def replace(self, name: str, data: bytes) -> None:
        """Give a file another content, which the manifest then also has."""
        self.files[name] = data
        kept = [one for one in self.snapshot["files"] if one["name"] != name]
        kept.append({"name": name, "bytes": len(data), "blake3": blake3(data).hexdigest()})
        self.snapshot["files"] = kept

    def write(self, path: Path, key: SigningKey | None, seal: tuple[Sealing, Seal] | None = None) -> Path:
        """Make a bundle of it, with digests that match and a signature that holds."""
        segments: list[dict[str, Any]] = []
        layers: list[dict[str, Any]] = []
        files: list[dict[str, Any]] = []
        blobs: list[tuple[BlobDescriptor, bytes]] = list(self.blobs)
        for data, places in bundle_segments.together(self.files.items()):
            packed = bundle_segments.segment(data)
            layers.append(_put(blobs, media.SEGMENT, packed, seal).as_dict())
            for name, offset, size in places:
                parts = [{"segment": len(segments), "offset": offset, "bytes": size}] if size else []
                files.append({"name": name, "parts": parts})
            segments.append({"bytes": len(data), "blake3": blake3(data).hexdigest()})
        for name, size in self.hollow.items():
            files.append({"name": name, "parts": [{"segment": None, "offset": 0, "bytes": size}]})
        config = {**self.config, "segments": segments, "files": files}
        self.after(config)
        image_config = _put(blobs, media.IMAGE_CONFIG, form.dumps(self.image_config), seal)
        image = _add(blobs, media.MANIFEST, {**self.image, "config": image_config.as_dict()})
        described = _put(blobs, media.SNAPSHOT_CONFIG, form.dumps(config), seal)
        snapshot = _add(
            blobs,
            media.MANIFEST,
            {
                "schemaVersion": 2,
                "mediaType": media.MANIFEST,
                "artifactType": media.SNAPSHOT,
                "config": described.as_dict(),
                "layers": self.layers if self.layers is not None else layers,
                "subject": (self.subject or image).as_dict(),
            },
        )
        sealed = seal[1].model_dump_json() if seal is not None else ""
        annotations = {media.SEALED: sealed} if sealed else {}
        if key is not None:
            annotations |= signing.signed(key, image, snapshot, sealed)
        with FileDestination(path) as destination:
            for blob, data in blobs:
                destination.put(blob, io.BytesIO(data))
            destination.finish(form.index(image, snapshot, ("linux", "amd64"), annotations))
        return path


class Thin(FileDestination):
    """A file without the layers of the image: an engine that has them never asks for them."""

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        return 0

    def has(self, blob: BlobDescriptor) -> bool:
        """Whether it would be there in a file that is whole."""
        return blob.media_type == media.LAYER_ZSTD or super().has(blob)


def _add(
    blobs: list[tuple[BlobDescriptor, bytes]], media_type: str, value: Mapping[str, Any]
) -> BlobDescriptor:
    return _put(blobs, media_type, form.dumps(value), None)


def _put(
    blobs: list[tuple[BlobDescriptor, bytes]], media_type: str, data: bytes, seal: tuple[Sealing, Seal] | None
) -> BlobDescriptor:
    if seal is not None:
        media_type, data = media_type + media.ENCRYPTED, b"".join(seal[0].seal([data]))
    found = form.described(media_type, data)
    blobs.append((found, data))
    return found
