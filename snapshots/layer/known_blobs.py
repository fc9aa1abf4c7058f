"""The descriptors of images' layers in the store of containerd, remembered by the image.

Only root can read them there; for others the engine has to send a whole image. An image is named by its
digest, so what is known of it stays true. Losing this only costs time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from holdfast.base import private_files
from holdfast.snapshots.layer.oci import Blob, blob

MOST = 200
"""Images; the oldest are forgotten first."""


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
        for oldest in list(known)[:-MOST]:
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
