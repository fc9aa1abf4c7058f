"""Destinations and origins of bundles: the interface of a file, a registry, or anything else.

An endpoint moves bytes under their digests. It does not know snapshots, and does not judge: the reader of
an origin compares every byte with the descriptor. Errors are `holdfast.errors`'; the endpoint translates
its libraries' errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """An OCI descriptor: a digest (`sha256:` and 64 hexadecimal digits) and a size in bytes."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def hex(self) -> str:
        """The digest without its algorithm."""
        return self.digest.partition(":")[2]

    def as_dict(self) -> dict[str, Any]:
        """Return the descriptor as it is written in manifests."""
        fields: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        return fields | ({"annotations": dict(sorted(self.annotations.items()))} if self.annotations else {})


class BundleDestination(Protocol):
    """The destination of one bundle; a context manager. Left before `finish`, nothing of it can be found.

    The parts come before what names them: layers and configs, then manifests (`media.is_manifest`), then the
    index.
    """

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return how many of these layers, from the lowest, do not have to be put: the reader already has
        them."""

    def has(self, blob: BlobDescriptor) -> bool:
        """Return whether it already has this; False if it cannot tell."""

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Store the part; `data` is exactly `blob.size` bytes from its position. It can be stored already."""

    def finish(self, index: bytes) -> str:
        """Store the index, and make the bundle visible. Return the name by which it is found."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


class BundleOrigin(Protocol):
    """The origin of one bundle; a context manager. Nothing from it is trusted before it is compared."""

    @property
    def name(self) -> str:
        """The path of the file, or the reference with the digest in it."""

    def index(self) -> bytes:
        """Return the index, of a bounded size."""

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        """Open the bytes of a part from `start`; the caller closes it. A manifest is read in the same way."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...
