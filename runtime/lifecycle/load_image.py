"""Loading of an image from a file into the engine, under a name of ours, whatever names the file gives it.

The engine gets the form that all of its versions and stores read: layers that are not compressed. Each was
compared with its digest before; an image that is damaged is not loaded at all.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import zstandard

from holdfast.base import bounded_tar
from holdfast.base.text import plain
from holdfast.errors import ImageError
from holdfast.runtime.lifecycle import image_file
from holdfast.runtime.lifecycle.image_build import provided_name
from holdfast.runtime.lifecycle.image_file import ImagePlace, StoredArchive, StoredFolder, StoredImage
from holdfast.snapshots.layer.archive import END, NewLayer, document

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

_PIECE = 1 << 20
_UNREADABLE = (OSError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


def is_path(text: str) -> bool:
    """Check whether the name of an image is the path of a file instead; names never begin like that."""
    return text.startswith(("/", "./", "../", "~"))


def load(context: Context, path: Path) -> str:
    """Load the image in a file or folder, unless the engine has it already, and return its name.

    Raises:
        ImageError: there is no such file, it holds no image for this engine, or it is damaged.
        EngineError: the engine refuses.
    """
    shown, images = plain(str(path), 200), context.engine.images
    try:
        with _opened(path.expanduser(), context.home.staging) as place:
            stored = image_file.find(place, context.engine.platform)
            if stored.platform != context.engine.platform:
                raise ImageError(
                    f"it is for {stored.platform}, and this engine's machine is {context.engine.platform}"
                )
            if not stored.layers:
                raise ImageError("it has no files")
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
    """Yield an image as `docker save` would, under another name.

    Args:
        place: where it is.
        stored: what is there.
        name: its name in the engine.
        scratch: a file for one layer at a time.

    Raises:
        ImageError: a layer is missing, or is not the one that the config names.
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
    """Write a layer as it is without compression, and compare it with its digest."""
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
        raise ImageError("it is damaged: a layer has another digest than its config says")
