"""The earlier images of one container on which the image of its next snapshot can be based.

An image of a container's whole layer has everything the container ever wrote. An image on top of an earlier
one has only the later changes. It is not always on top of the last one, because engines stack a limited
number of layers: the images form a tree in which each is on top of the image whose number lacks its lowest
digit. So a thousand snapshots make fifteen layers at most, and a change is stored a few times at most. The
last image of a container, which is suspended with it, is on top of the one before. When an image would have
more than twice the bytes that its files need, the next one has the whole layer again.

The chain is a cache in a folder of the session that only the host sees: the layers of each image to build on,
and an index of the container's files in it (`checkpointer/layers/earlier_layer.py`). The cache is valid for
one container and one boot of the machine. Without it the next image has the whole layer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from holdfast.base import private_files
from holdfast.snapshots.layer.image import ExtendedImage
from holdfast.snapshots.layer.oci import Blob, blob

FILE = "chain.json"
WIDTH = 4
"""One more than the images on top of the same one, at each height."""
SPARE = 16 << 20
"""Bytes that an image has at most, beyond twice the bytes of its files."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class EarlierImage:
    """An image to build on. `layers` and `blobs` are as in `image.ParentImage`.

    In bytes, `written` is its own topmost layer as an archive, `whole` about an archive of the container's
    whole layer, `grown` its own layer as the engine counts, and `size` the image. `index` is the digest of
    its index, `snapshot` the id of the snapshot it was made for.
    """

    number: int
    image: str
    layers: tuple[str, ...]
    blobs: tuple[Blob, ...] | None
    written: int
    whole: int
    grown: int
    size: int
    index: str
    snapshot: str = ""


class LayerChain:
    """The images of one container, and the image that is being made."""

    def __init__(self, folder: Path, container: str) -> None:
        """Use a folder, which is made when needed, for the images of the container with this id."""
        self._folder = folder
        self._key = {"container": container, "boot": _boot()}
        self._links = self._read()
        self._number = self._links[-1].number + 1 if self._links else 0

    def choose(
        self, exists: Callable[[EarlierImage], bool], most: int, *, is_last: bool = False
    ) -> EarlierImage | None:
        """Choose the image on which the next one is to be made; None if it needs the whole layer.

        Args:
            exists: tells whether there is such an image, and holds it.
            most: the number of layers that an image has at most.
            is_last: the container ends with the next image, which is on top of the last one then.
        """
        whole = self._links[-1].whole if self._links else 0
        while self._links and not exists(self._links[-1]):
            self._links.pop()
        # An image that exists has the layers of every image below it.
        while self._links and not self._fits(self._links[-1], most, is_last=is_last):
            self._links.pop()
        if sum(each.written for each in self._links) > 2 * whole + SPARE:
            self._links = []
        if not self._links:
            self._number = 0
            return None
        return self._links[-1]

    def _fits(self, link: EarlierImage, most: int, *, is_last: bool) -> bool:
        if (link.number > below(self._number) and not is_last) or len(link.layers) >= most:
            return False
        with suppress(OSError):
            return _digest(self._index(link.number)) == link.index
        return False

    def offer(self, place: Path) -> None:
        """Put the index of the chosen image in a place.

        Raises:
            OSError: that is not possible.
        """
        os.link(self._index(self._links[-1].number), place)

    def take(self, index: Path) -> None:
        """Keep the index of the image that is being made; it leaves its place.

        Raises:
            OSError: it cannot be kept.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        index.chmod(private_files.MODE)
        index.replace(self._index(self._number))

    def add(
        self, made: ExtendedImage, *, written: int, whole: int, grown: int, size: int, snapshot: str = ""
    ) -> None:
        """Add the new image, whose index was taken; if that fails, the next one has the whole layer."""
        try:
            index = _digest(self._index(self._number))
            self._links.append(
                EarlierImage(
                    self._number,
                    made.id,
                    made.layers,
                    made.blobs,
                    written,
                    whole,
                    grown,
                    size,
                    index,
                    snapshot,
                )
            )
            links = [asdict(each) for each in self._links]
            text = json.dumps({**self._key, "links": links})
            private_files.replace(self._folder / FILE, text, durable=False)
            kept = {FILE, *(self._index(each.number).name for each in self._links)}
            for other in self._folder.iterdir():
                if other.name not in kept:
                    other.unlink()
        except OSError:
            self.forget()

    def layers(self) -> dict[str, int]:
        """Return the layers with files of the container, lowest first, and the bytes of each."""
        return {each.layers[-1]: each.grown for each in self._links}

    def forget(self) -> None:
        """Make the next image contain the whole layer."""
        self._links, self._number = [], 0
        with suppress(OSError):
            (self._folder / FILE).unlink(missing_ok=True)

    def _index(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _read(self) -> list[EarlierImage]:
        with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
            found = json.loads((self._folder / FILE).read_text())
            if all(found[name] == value for name, value in self._key.items()):
                return [_image(each) for each in found["links"]]
        return []


def below(number: int) -> int:
    """Return the number of the image below: the number without its lowest nonzero digit. Pure."""
    step = 1
    while number and number % (step * WIDTH) == 0:
        step *= WIDTH
    return number - step


def _image(fields: Mapping[str, Any]) -> EarlierImage:
    blobs = fields["blobs"]
    listed = None if blobs is None else tuple(map(blob, blobs))
    return EarlierImage(**{**fields, "layers": tuple(fields["layers"]), "blobs": listed})


def _digest(path: Path) -> str:
    return str(blake3(path.read_bytes()).hexdigest())


def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return ""
