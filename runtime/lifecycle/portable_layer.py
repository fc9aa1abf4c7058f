"""The portable guest as a layer for any image: its archive, beginning with the image's own folder /opt.

A layer replaces what it has of a folder's owner and mode. Pure but for reading the archive, a file.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import ImageError
from holdfast.snapshots.layer.archive import NewLayer

FOLDER = "opt"
_PLACE = "opt/holdfast"
_PIECE = 1 << 20


class PortableLayer(NewLayer):
    """A layer with the portable guest."""

    def __init__(self, archive: Path, above: tarfile.TarInfo | None) -> None:
        """Begin.

        Args:
            archive: the layer of the portable guest, as `take` leaves it.
            above: the folder /opt of the image below, if it has one.

        Raises:
            ImageError: that is no folder.
            OSError: the archive cannot be read.
        """
        super().__init__()
        if above is not None and not above.isdir():
            raise ImageError("cannot add the guest to the image: /opt is no folder there")
        self._archive = archive
        with tarfile.open(archive) as members:
            own, place, first = members.next(), members.next(), members.next()
        if own is None or place is None or first is None or (own.name, place.name) != (FOLDER, _PLACE):
            raise ImageError("cannot add the guest to the image: its layer has another form")
        folder = copy.copy(above or own)
        folder.name, folder.mode = FOLDER, folder.mode | 0o111  # every user has to pass through it
        # What the image has in that place is not seen: it could be another guest.
        opaque = tarfile.TarInfo(f"{_PLACE}/.wh..wh..opq")
        self._head = b"".join(each.tobuf(tarfile.PAX_FORMAT) for each in (folder, place, opaque))
        self._rest = first.offset
        self.size = len(self._head) + archive.stat().st_size - self._rest

    def _pieces(self) -> Iterator[bytes]:
        yield self._head
        with self._archive.open("rb") as file:
            file.seek(self._rest)
            while piece := file.read(_PIECE):
                yield piece


def take(saved: Path, layer: Path, diff_id: str) -> None:
    """Take the one layer out of a saved image, as `docker save` of any version writes it.

    Args:
        saved: the archive with the image.
        layer: what is written: the archive with the layer.
        diff_id: the digest of the layer.

    Raises:
        ImageError: it is not in there.
        OSError: one cannot be read, or the other cannot be written.
    """
    with tarfile.open(saved) as archive:
        listed = archive.extractfile("manifest.json")
        assert listed
        member = archive.extractfile(json.load(listed)[0]["Layers"][0])
        assert member
        zipped = member.read(2) == b"\x1f\x8b"
        member.seek(0)
        with layer.open("wb") as target, gzip.open(member) if zipped else member as source:
            shutil.copyfileobj(source, target, _PIECE)
    with layer.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if f"sha256:{found}" != diff_id:
        layer.unlink()
        raise ImageError("cannot add the guest to the image: the engine gave another layer than its own")
