"""The documents of a bundle: index, manifests, and the config that describes a snapshot. Pure.

    index ─┬─ image manifest      an ordinary image: the files of the session
           └─ snapshot manifest   config: `BundleConfig`; layers: segments of everything else

Input is not trusted: lengths, counts and names are limited here, the reader compares digests. Documents are
written in one way only (sorted keys, no spaces), so that the same snapshot has the same digests everywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from holdfast.errors import BundleNewer, BundleRefused
from holdfast.snapshots import form_number
from holdfast.snapshots.bundle import media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.manifest import Manifest

T = TypeVar("T", bound=BaseModel)

MAX_INDEX = 1 << 20
MAX_MANIFEST = 4 << 20
MAX_CONFIG = 64 << 20
MAX_LAYERS = 127
"""Most layers of an image: the number that the engine's overlay2 can stack."""
MAX_SEGMENTS = 20_000
MAX_FILES = 100_000
MAX_SEGMENT = 64 << 20
"""Bytes of one segment; each is held in memory once."""

# $ is the very end in these expressions (the Rust crate regex), even before a line's end.
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=2**50)]
Word = Annotated[str, Field(max_length=300)]


class _Document(BaseModel):
    """A document from elsewhere. It can have more fields; they are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class NamedBlob(_Document):
    """A descriptor as it is written."""

    media_type: Annotated[Word, Field(alias="mediaType")]
    digest: Digest
    size: Count
    annotations: Annotated[dict[Word, Annotated[str, Field(max_length=20_000)]], Field(max_length=100)] = {}
    artifact_type: Annotated[Word | None, Field(alias="artifactType")] = None

    def descriptor(self) -> BlobDescriptor:
        """Return the descriptor as a value."""
        return BlobDescriptor(self.media_type, self.digest, self.size, self.annotations)


class BundleIndex(_Document):
    """The index that a reference or a file leads to."""

    manifests: Annotated[list[NamedBlob], Field(max_length=100)]
    annotations: Annotated[dict[Word, Annotated[str, Field(max_length=20_000)]], Field(max_length=100)] = {}


class ImageManifest(_Document):
    """Either of the two manifests."""

    config: NamedBlob
    layers: Annotated[list[NamedBlob], Field(max_length=MAX_SEGMENTS)]
    subject: NamedBlob | None = None
    artifact_type: Annotated[Word | None, Field(alias="artifactType")] = None
    annotations: Annotated[dict[Word, Annotated[str, Field(max_length=20_000)]], Field(max_length=100)] = {}


class _BundleFiles(_Document):
    type: Literal["layers"]
    diff_ids: Annotated[list[Digest], Field(min_length=1, max_length=MAX_LAYERS)]


class ImageConfig(_Document):
    """The fields read from the image's own config: its platform and its layers."""

    architecture: Word
    os: Word
    rootfs: _BundleFiles


class FilePart(BaseModel):
    """A range of a file: its place in a segment; without a segment, it is zeros."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    segment: Annotated[int, Field(ge=0, lt=MAX_SEGMENTS)] | None = None
    offset: Annotated[int, Field(ge=0, le=MAX_SEGMENT)] = 0
    bytes: Count


class FileInParts(BaseModel):
    """A file, from its beginning to its end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(max_length=200)]
    parts: Annotated[list[FilePart], Field(max_length=MAX_FILES)]


class LayerSegment(BaseModel):
    """The content of a layer after decompression."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: Annotated[int, Field(gt=0, le=MAX_SEGMENT)]
    blake3: Hash


class BundleConfig(BaseModel):
    """A snapshot as it travels. `segments` are in the order of the manifest's layers.

    `base` is how many layers the image had before any layer of a snapshot was added; `details` are what the
    store knew of it that is of use elsewhere.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    snapshot: Manifest
    base: Annotated[int, Field(ge=0, le=MAX_LAYERS)]
    segments: Annotated[list[LayerSegment], Field(max_length=MAX_SEGMENTS)]
    files: Annotated[list[FileInParts], Field(max_length=MAX_FILES)]
    details: dict[str, Any] = {}


def dumps(value: Mapping[str, Any]) -> bytes:
    """Serialize a document; the bytes are always the same."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def described(media_type: str, data: bytes, annotations: Mapping[str, str] | None = None) -> BlobDescriptor:
    """Return the descriptor of bytes."""
    return BlobDescriptor(
        media_type, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), annotations or {}
    )


def image_manifest(config: BlobDescriptor, layers: list[BlobDescriptor]) -> bytes:
    """Return the manifest of an ordinary image."""
    return dumps(_manifest(config, layers))


def snapshot_manifest(config: BlobDescriptor, segments: list[BlobDescriptor], image: BlobDescriptor) -> bytes:
    """Return the manifest of the parts of a snapshot that `image` does not hold."""
    return dumps(
        _manifest(config, segments) | {"artifactType": media.SNAPSHOT, "subject": _bare(image).as_dict()}
    )


def index(
    image: BlobDescriptor, snapshot: BlobDescriptor, platform: tuple[str, str], annotations: Mapping[str, str]
) -> bytes:
    """Return the index over both. Ordinary tools take the image, since only that has an existing platform."""
    system, architecture = platform
    unknown = {"architecture": "unknown", "os": "unknown"}
    manifests = [
        image.as_dict() | {"platform": {"architecture": architecture, "os": system}},
        snapshot.as_dict() | {"platform": unknown, "artifactType": media.SNAPSHOT},
    ]
    made: dict[str, Any] = {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": manifests}
    return dumps(made | ({"annotations": dict(annotations)} if annotations else {}))


def both(found: BundleIndex) -> tuple[BlobDescriptor, BlobDescriptor]:
    """Return the image and the snapshot of an index.

    Raises:
        BundleRefused: it does not have exactly one of each.
    """
    snapshots = [one for one in found.manifests if one.artifact_type == media.SNAPSHOT]
    images = [one for one in found.manifests if one.artifact_type is None]
    if len(snapshots) != 1 or len(images) != 1:
        raise BundleRefused(
            "cannot import: it is not a Holdfast snapshot",
            hint="`holdfast export` and `holdfast push` make what can be imported",
        )
    for one in (*images, *snapshots):
        if one.media_type != media.MANIFEST:
            raise BundleRefused(
                f"cannot import: it has a manifest of an unknown kind ({shown(one.media_type)})"
            )
    return images[0].descriptor(), snapshots[0].descriptor()


def parse(model: type[T], data: bytes, what: str) -> T:
    """Read a document.

    Raises:
        BundleNewer: a newer version made it.
        BundleRefused: it does not have that form.
    """
    try:
        unambiguous(data)
        return model.model_validate_json(data)
    except ValidationError as error:
        if forms := form_number.difference(error):
            raise newer(forms) from error
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        why = shown(f"{where}: {first['msg']}")
        raise BundleRefused(
            f"cannot import: {what} is not valid ({why})",
            hint="it is damaged or forged",
        ) from error


def newer(forms: str) -> BundleNewer:
    """Return the error about a bundle of a newer version; `forms` as `form_number` words them."""
    return BundleNewer(
        f"cannot import: a newer version of Holdfast made it {forms}", hint="upgrade Holdfast, then import it"
    )


def unambiguous(data: bytes | str) -> None:
    """Check that no object in a document has a key twice.

    Tools differ in which of the two they use (RFC 8259, section 4): the data read must be the data that was
    signed and judged.

    Raises:
        BundleRefused: one has. Invalid JSON is left to its reader to report.
    """
    with contextlib.suppress(RecursionError, ValueError):
        json.loads(data, object_pairs_hook=_once)


def shown(text: str) -> str:
    """Return text from elsewhere, shortened and safe to show."""
    return "".join(char if char.isprintable() else "?" for char in text[:300])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BundleRefused(
                f"cannot import: it defines '{shown(key)}' twice", hint="it is forged, or damaged"
            )
        found[key] = value
    return found


def _manifest(config: BlobDescriptor, layers: list[BlobDescriptor]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "config": config.as_dict(),
        "layers": [layer.as_dict() for layer in layers],
    }


def _bare(one: BlobDescriptor) -> BlobDescriptor:
    return BlobDescriptor(one.media_type, one.digest, one.size)
