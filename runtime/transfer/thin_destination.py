"""A destination whose reader is known to have the layers of an image. Knows nothing of engines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import BinaryIO, Self

from holdfast.snapshots.bundle.endpoints import BlobDescriptor, BundleDestination


class ThinDestination:
    """Another destination, without the lowest layers that `known`, those of an image, begins with as well.

    That destination is entered and left with this one.
    """

    def __init__(self, destination: BundleDestination, known: Sequence[str]) -> None:
        self._destination = destination
        self._known = known

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return how many of the lowest layers are those of the known image."""
        pairs = zip(diff_ids, self._known, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def has(self, blob: BlobDescriptor) -> bool:
        """Ask the other destination."""
        return self._destination.has(blob)

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Pass a part on."""
        self._destination.put(blob, data)

    def finish(self, index: bytes) -> str:
        """Pass the end on."""
        return self._destination.finish(index)

    def __enter__(self) -> Self:
        self._destination.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._destination.__exit__(kind, error, where)
