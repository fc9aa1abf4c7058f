"""Loading of an image from a file into the engine, under a name of ours, whatever names the file gives it.

The engine gets the form that all of its versions and stores read: layers that are not compressed. Each was
compared with its digest before; an image that is damaged is not loaded at all.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import zstandard

from holdfast.base import bounded_tar
from holdfast.base.bounded_tar import BoundedTar
from holdfast.base.text import plain
from holdfast.errors import ImageError
from holdfast.runtime.lifecycle.image_build import provided_name
from holdfast.snapshots.layer.archive import END, NewLayer, document

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


_PIECE = 1 << 20
_UNREADABLE = (OSError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
LONGEST = 16 << 20
"""Bytes of a document; a config with thousands of layers has less than 1 MiB."""
DEEPEST = 3
"""How often an index can name a second one."""
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_BLOB = re.compile(r"sha256:([0-9a-f]{64})")


def is_path(text: str) -> bool:
    """Check whether the name of an image is the path of a file instead; names never begin like that."""
    return text.startswith(("/", "./", "../", "~"))


def load(context: Context, path: Path) -> str:
    """Load the image in a file or folder, unless the engine has it already, and return its name.

    Raises:
        ImageError: the file does not exist, does not hold an image for this engine, or is damaged.
        EngineError: the engine refuses.
    """
    shown, images = plain(str(path), 200), context.engine.images
    try:
        with _opened(path.expanduser(), context.home.staging) as place:
            stored = find_image(place, context.engine.platform)
            if stored.platform != context.engine.platform:
                raise ImageError(
                    f"it is for {stored.platform}, and this engine's machine is {context.engine.platform}"
                )
            if not stored.layers:
                raise ImageError("it does not contain files")
            name = provided_name(path.name.partition(".")[0] or path.name, stored.id)
            if not images.exists(name):
                context.progress(f"loading {shown}")
                with tempfile.TemporaryDirectory(dir=context.home.staging) as folder:
                    pieces = archive(place, stored, name, Path(folder, "layer"))
                    images.load(pieces, f"load the image of {shown}")
            return name
    except ImageError as error:
        if str(error).startswith("cannot"):
            raise
        raise ImageError(f"cannot use image {shown}: {error}", hint=error.hint) from error
    except _UNREADABLE as error:
        why = getattr(error, "strerror", None) or str(error) or "it ends too early"
        raise ImageError(f"cannot use image {shown}: {plain(str(why), 200)}") from error


@contextmanager
def _opened(path: Path, scratch: Path) -> Iterator[ImagePlace]:
    if path.is_dir():
        yield StoredFolder(path)
        return
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("rb"))
        start = file.read(6)
        file.seek(0)
        if bounded_tar.is_packed(start):  # its members are read in an order of their own
            packed, file = file, stack.enter_context(tempfile.TemporaryFile(dir=scratch))
            shutil.copyfileobj(bounded_tar.PlainStream(packed), file, _PIECE)
            file.seek(0)
        yield StoredArchive(file)


def archive(place: ImagePlace, stored: StoredImage, name: str, scratch: Path) -> Iterator[bytes]:
    """Yield an image as `docker save` would, under a different name.

    Args:
        place: where it is.
        stored: the stored content.
        name: its name in the engine.
        scratch: a file for one layer at a time.

    Raises:
        ImageError: a layer is missing, or differs from the config.
        OSError: one cannot be read.
    """
    members = []
    for number, (source, diff_id) in enumerate(zip(stored.layers, stored.diff_ids, strict=True)):
        _unpack(place, source, diff_id, scratch)
        members.append(f"{number}/layer.tar")
        yield from _Unpacked(scratch).read_as(members[-1])
    config = f"{stored.id.removeprefix('sha256:')}.json"
    yield document(config, stored.config)
    yield document(
        "manifest.json", json.dumps([{"Config": config, "RepoTags": [name], "Layers": members}]).encode()
    )
    yield END


class _Unpacked(NewLayer):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.size = path.stat().st_size

    def _pieces(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece


def _unpack(place: ImagePlace, source: str, diff_id: str, target: Path) -> None:
    """Write a layer without compression, and compare it with its digest."""
    member = place.open(source)
    if member is None:
        raise ImageError("a layer of it is missing")
    with member:
        digest = hashlib.sha256()
        with target.open("wb") as file:
            opened = bounded_tar.PlainStream(member)
            while piece := opened.read(_PIECE):
                digest.update(piece)
                file.write(piece)
    if f"sha256:{digest.hexdigest()}" != diff_id:
        raise ImageError("it is damaged: a layer does not have the digest that its config names")


class ImagePlace(ABC):
    """An archive or a folder, by the names of its files."""

    @abstractmethod
    def open(self, name: str) -> IO[bytes] | None:
        """Open a file to read it; None if it does not exist.

        Raises:
            OSError: it cannot be read.
        """

    def document(self, name: str) -> bytes | None:
        """Return a small file; None if it does not exist.

        Raises:
            ImageError: it is too long.
            OSError: it cannot be read.
        """
        file = self.open(name)
        if file is None:
            return None
        with file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise ImageError(f"{plain(name, 100)} in it is longer than {LONGEST} bytes")
        return data


class StoredArchive(ImagePlace):
    """A tar archive."""

    def __init__(self, file: IO[bytes]) -> None:
        """Read the positions of its members.

        Raises:
            ImageError: it is not an archive.
            OSError: it cannot be read.
        """
        self._archive = BoundedTar(file, remembers=True)
        try:
            self._archive.remember()
        except tarfile.TarError as error:
            raise ImageError(f"it is not an archive of an image: {error}") from error

    def open(self, name: str) -> IO[bytes] | None:
        """Open a member, or the target of its link within the archive."""
        for each in (name, f"./{name}"):
            try:
                return self._archive.named(each)
            except KeyError:
                continue
        return None


class StoredFolder(ImagePlace):
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file, unless it leads out of the folder."""
        try:
            path = Path(os.path.realpath(self._folder / name))
        except ValueError:  # NUL, or halves of characters: no file has such a name
            return None
        inside = path.is_relative_to(self._folder) and os.path.isfile(path)  # noqa: PTH113 - also of long names
        return path.open("rb") if inside else None


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in a file.

    Attributes:
        config: the document that describes it.
        layers: the names of its layers' archives, the lowest first, compressed or not.
        diff_ids: the digests of those archives when they are not compressed.
        platform: its platform, such as `linux/amd64`.
    """

    config: bytes
    layers: tuple[str, ...]
    diff_ids: tuple[str, ...]
    platform: str

    @property
    def id(self) -> str:
        """The digest of the config, which is an image's id for engines."""
        return f"sha256:{hashlib.sha256(self.config).hexdigest()}"


def find_image(place: ImagePlace, platform: str) -> StoredImage:
    """Return the only image of a file that is for a platform.

    Raises:
        ImageError: there is none, or there are several; without "cannot", which the caller says.
        OSError: the file cannot be read.
    """
    if (listed := place.document("manifest.json")) is not None:
        entries = _parsed(listed, list, "manifest.json")
        if len(entries) != 1 or not isinstance(entries[0], dict):
            raise ImageError(f"it holds {len(entries)} images, and exactly one is needed")
        name, layers = entries[0].get("Config"), entries[0].get("Layers")
        if not isinstance(name, str) or not isinstance(layers, list) or not _are_texts(layers):
            raise ImageError("its manifest.json has an unexpected form")
        return _stored(place.document(name), tuple(layers))
    if (listed := place.document("index.json")) is None:
        raise ImageError("it is neither what `docker save` writes nor an OCI layout")
    found, seen = [], set()
    for descriptor in _manifests(place, _parsed(listed, dict, "index.json"), 0):
        image = _of_manifest(place, descriptor)
        seen.add(image.platform)
        if image.platform == platform and image not in found:
            found.append(image)
    if len(found) > 1:
        raise ImageError(f"it holds {len(found)} images for {platform}, and exactly one is needed")
    if not found:
        others = ", ".join(sorted(seen)) or "nothing"
        raise ImageError(f"it is for {plain(others, 200)}, and this engine's machine is {platform}")
    return found[0]


def _manifests(place: ImagePlace, index: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """Yield an index's statements about images, and the images."""
    listed = index.get("manifests")
    if not isinstance(listed, list) or depth > DEEPEST:
        raise ImageError("its index has an unexpected form")
    for each in listed:
        if not isinstance(each, dict):
            raise ImageError("its index has an unexpected form")
        if each.get("mediaType") in _INDEXES:
            yield from _manifests(place, _parsed(_blob(place, each), dict, "an index"), depth + 1)
        elif not _is_remark(each):
            yield each


def _is_remark(descriptor: dict[str, Any]) -> bool:
    """Check for BuildKit's attestations of an image, listed as an image for no platform."""
    platform = descriptor.get("platform")
    return isinstance(platform, dict) and platform.get("os") == "unknown"


def _of_manifest(place: ImagePlace, descriptor: dict[str, Any]) -> StoredImage:
    manifest = _parsed(_blob(place, descriptor), dict, "a manifest")
    layers = manifest.get("layers")
    if not isinstance(layers, list):
        raise ImageError("a manifest in it has an unexpected form")
    return _stored(_blob(place, manifest.get("config")), tuple(_name(each) for each in layers))


def _stored(config: bytes | None, layers: tuple[str, ...]) -> StoredImage:
    if config is None:
        raise ImageError("its config is missing")
    about = _parsed(config, dict, "its config")
    rootfs = about.get("rootfs")
    listed = (rootfs.get("diff_ids") or []) if isinstance(rootfs, dict) else []
    if not isinstance(listed, list) or not _are_texts(listed):
        raise ImageError("its config has an unexpected form")
    if len(listed) != len(layers) or not all(map(_BLOB.fullmatch, listed)):
        raise ImageError("its config does not match its layers")
    platform = plain(f"{about.get('os')}/{about.get('architecture')}", 100)
    return StoredImage(config, layers, tuple(listed), platform)


def _blob(place: ImagePlace, descriptor: object) -> bytes:
    """Return a document that is named by its digest."""
    data = place.document(_name(descriptor))
    if data is None:
        raise ImageError("a part of it is missing")
    assert isinstance(descriptor, dict)
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != descriptor["digest"]:
        raise ImageError("it is damaged: a part of it does not have the digest in its name")
    return data


def _name(descriptor: object) -> str:
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    found = _BLOB.fullmatch(digest) if isinstance(digest, str) else None
    if found is None:
        raise ImageError("a part of it is not named by a SHA-256 digest")
    return f"blobs/sha256/{found[1]}"


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(each, str) for each in values)


def _parsed(data: bytes, kind: type, what: str) -> Any:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        raise ImageError(f"{what} in it is not readable")
    return found
