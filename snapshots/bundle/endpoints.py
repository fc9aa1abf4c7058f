"""Where bundles go to and come from: what a file, a registry, or anything else must be able to do.

An end moves bytes under their digests. It knows nothing of snapshots, and judges nothing: whoever reads from
an origin compares every byte with the descriptor. Errors are of `holdfast.errors`; those of libraries are
translated by the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Content by its digest (`sha256:` and 64 hexadecimal digits) and size in bytes, as the OCI has it."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def hex(self) -> str:
        """The digest without its algorithm."""
        return self.digest.partition(":")[2]

    def as_dict(self) -> dict[str, Any]:
        """As it is written in manifests."""
        told: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        return told | ({"annotations": dict(sorted(self.annotations.items()))} if self.annotations else {})


class Destination(Protocol):
    """Takes one bundle. Used as a context manager; left before `finish`, nothing can be found of it.

    The parts come before what names them: layers and configs, then manifests (`media.is_manifest`), then the
    index.
    """

    def has(self, blob: Descriptor) -> bool:
        """Whether it has this already. False if it cannot tell."""

    def put(self, blob: Descriptor, data: BinaryIO) -> None:
        """Take it; data is exactly `blob.size` bytes from where it stands. It may have it already."""

    def finish(self, index: bytes) -> str:
        """Take the index, and let the bundle be found. Returns where, in the words of who wants it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


class Origin(Protocol):
    """Gives one bundle. Used as a context manager. Nothing it gives is believed before it is compared."""

    @property
    def name(self) -> str:
        """What it is: the path of a file, or a reference with the digest in it."""

    def index(self) -> bytes:
        """The index, of a bounded size."""

    def open(self, blob: Descriptor, start: int = 0) -> BinaryIO:
        """The bytes of a part from `start` on; the caller closes it. A manifest is read in the same way."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...
