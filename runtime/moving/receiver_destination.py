"""The destination of a bundle that goes straight to a receiver. Knows nothing of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import BinaryIO, Self

from holdfast.base.text import plain
from holdfast.runtime.moving import move_wire
from holdfast.runtime.moving.receiver_channel import ReceiverChannel
from holdfast.snapshots.bundle.endpoints import BlobDescriptor


class ReceiverDestination:
    """A receiver as a destination; `source` is what it calls this machine.

    Attributes:
        kept: True if it keeps what was imported, so that the next bundle may refer to it.
    """

    def __init__(self, receiver: ReceiverChannel, source: str) -> None:
        self._receiver = receiver
        self._source = source
        self.kept = False

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return how many of these layers, from the lowest, the receiver's engine has."""
        found = self._receiver.ask("layers", diff_ids=list(diff_ids))
        return move_wire.count_of(found, "there", len(diff_ids))

    def has(self, blob: BlobDescriptor) -> bool:
        """Return whether an earlier attempt, or an earlier bundle, brought it."""
        return self._receiver.ask("has", digest=blob.digest, size=blob.size).get("has") is True

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Send it."""
        self._receiver.put(blob.digest, blob.size, data)

    def finish(self, index: bytes) -> str:
        """Send the index, and have the bundle imported. Return its id there."""
        found = self._receiver.ask("import", index, source=self._source)
        self.kept = found.get("kept") is True
        return plain(str(found.get("snapshot")), 100)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Do nothing: the channel is the caller's."""
