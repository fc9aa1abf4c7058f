"""An image as an OCI layout that has only one of its layers, for an engine that has the others.

The image store of containerd accepts it, and finds the other blobs by their descriptors; the parent's must
be given in the store's form, compressed or not. OciLayout: image-spec, image-layout.md.

Only root can read descriptors there; for others the engine has to send a whole image. So they are
remembered by the image (`KnownBlobs`), which is named by its digest: the facts about it stay true, and
losing them only costs time.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from holdfast.base import private_files
from holdfast.engine.engine import Engine
from holdfast.engine.joined import Joined
from holdfast.errors import EngineError
from holdfast.snapshots.layer.archive import END, NewLayer, document

LARGEST = 4 << 20
"""Bytes of a document."""
_MOST = 64
"""Images in one, for other platforms; those of an index are looked at in their order."""
_BLOCK = 1 << 20
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
MOST_IMAGES = 200
"""Images; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A descriptor. Field names are those of its JSON."""

    mediaType: str  # noqa: N815
    digest: str
    size: int


Find = Callable[[str], bytes | None]


def blobs(engine: Engine, image_id: str, layers: Sequence[str]) -> tuple[Blob, ...] | None:
    """Return the descriptors of an image's layers as the store has them; None if they are not known.

    Args:
        engine: an engine with the store of containerd.
        image_id: the image; a digest there.
        layers: its diff ids.
    """
    found = search(lambda digest: engine.layers.blob(digest, LARGEST), image_id, layers)
    if found is not None:
        return found
    documents: dict[str, bytes] = {}
    try:
        for data in _saved(engine, image_id):  # most of the image is read for it, where only root has more
            documents[f"sha256:{hashlib.sha256(data).hexdigest()}"] = data
            if (found := search(documents.get, image_id, layers)) is not None:
                return found
    except (EngineError, tarfile.TarError):
        return None
    return None


def search(find: Find, image_id: str, layers: Sequence[str]) -> tuple[Blob, ...] | None:
    """Look for the manifest with these layers in the image, which can be an index of several. Pure."""
    try:
        return _search(find, image_id, list(layers), set())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _search(find: Find, digest: str, layers: list[str], seen: set[str]) -> tuple[Blob, ...] | None:
    """Look below one document. Each is visited once: indexes of indexes could multiply endlessly."""
    if digest in seen or (data := find(digest)) is None:
        return None
    seen.add(digest)
    document = json.loads(data)
    for each in document.get("manifests", ())[:_MOST]:
        if (found := _search(find, each["digest"], layers, seen)) is not None:
            return found
    if "config" not in document:
        return None
    config = find(document["config"]["digest"])
    if config is None or json.loads(config)["rootfs"]["diff_ids"] != layers:
        return None
    listed = document["layers"]
    if len(listed) != len(layers):
        return None
    return tuple(map(blob, listed))


def blob(described: Mapping[str, Any]) -> Blob:
    """Read a descriptor.

    Raises:
        TypeError, ValueError, LookupError: it is not one.
    """
    return Blob(str(described["mediaType"]), str(described["digest"]), int(described["size"]))


def _saved(engine: Engine, image_id: str) -> Iterator[bytes]:
    """Yield the documents of an image, in an order of the engine's own."""
    with closing(engine.images.save(image_id, _BLOCK)) as saved:
        stream = cast("Any", Joined(saved))
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as archive:
            for member in archive:
                if member.isreg() and member.size <= LARGEST and (file := archive.extractfile(member)):
                    data = file.read()
                    if data.startswith(b"{"):
                        yield data


class OciLayout:
    """The layout of an image: the blobs of its parent, and one more layer.

    `id`, the digest of its manifest, and `layers`, the lowest first, are known once all of it was read.
    """

    def __init__(self, parent: Sequence[Blob], config: Callable[[str], bytes], ref: str) -> None:
        """Begin.

        Args:
            parent: descriptors of layers that the engine has, the lowest first.
            config: returns the config of the image, given the digest of the layer.
            ref: the name of the image.
        """
        self._parent = parent
        self._config = config
        self._ref = ref
        self.id = ""
        self.layers: list[Blob] = []

    def read(self, archive: NewLayer) -> Iterator[bytes]:
        """Yield the layout as a tar archive, piece by piece; once.

        containerd names what it reads by its content, so the layer can come before its digest is known. The
        name it has here must be unique: the rest of an aborted load of the same name would be continued.

        Raises:
            OSError: the layer cannot be read.
        """
        yield from archive.read_as(f"new/{secrets.token_hex(16)}")
        layers = [*self._parent, Blob(_LAYER, archive.digest, archive.size)]
        config = self._config(archive.digest)
        described = asdict(_described(_CONFIG, config))
        manifest = _json(_MANIFEST, config=described, layers=[asdict(each) for each in layers])
        self.id = _described(_MANIFEST, manifest).digest
        self.layers = layers
        names = {
            "io.containerd.image.name": f"docker.io/{self._ref}",
            "org.opencontainers.image.ref.name": self._ref.rpartition(":")[2],
        }
        entry = {**asdict(_described(_MANIFEST, manifest)), "annotations": names}
        for name, data in (
            (_place(config), config),
            (_place(manifest), manifest),
            ("index.json", _json(_INDEX, manifests=[entry])),
            ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'),
        ):
            yield document(name, data)
        yield END


def _json(media_type: str, **content: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": media_type, **content}).encode()


def _described(media_type: str, data: bytes) -> Blob:
    return Blob(media_type, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


def _place(data: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"


class KnownBlobs:
    """The layers of images, kept in a file of a home's cache."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, image_id: str, layers: Sequence[str]) -> tuple[Blob, ...] | None:
        """Return the descriptors of an image with these diff ids, the lowest first; None if not known."""
        match self._read().get(image_id):
            case {"layers": list(named), "blobs": list(listed)} if named == list(layers):
                with suppress(TypeError, ValueError, LookupError):
                    blobs = tuple(map(blob, listed))
                    return blobs if len(blobs) == len(layers) else None
        return None

    def add(self, image_id: str, layers: Sequence[str], blobs: Sequence[Blob]) -> None:
        """Remember an image."""
        known = self._read()
        known.pop(image_id, None)
        known[image_id] = {"layers": list(layers), "blobs": [asdict(each) for each in blobs]}
        for oldest in list(known)[:-MOST_IMAGES]:
            del known[oldest]
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(self._path, json.dumps(known), durable=False)

    def _read(self) -> dict[str, object]:
        with suppress(OSError, ValueError):
            found = json.loads(self._path.read_text())
            if isinstance(found, dict):
                return found
        return {}
