"""The recording of a running session, read from its supervisor in ranges across lost connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.history.recording.cast import CastGap, Chunk
from holdfast.runtime.history.recording.recording import KeptRange

# Bytes read over one connection before its pieces are used: a slow consumer holds none.
RANGE = 1 << 20
MOST_PIECES = 10_000
# The supervisor keeps 16 MiB.
MOST_INDEX = 64 << 20


class LiveRecording:
    """A `recording.Source`."""

    def __init__(self, client: Callable[[], GuestClient], reconnection: Reconnection, shell: str) -> None:
        self._client = client
        self._reconnection = reconnection
        self._shell = shell

    def kept(self) -> KeptRange:
        """Return the range of output that is kept."""
        look = self._reconnection.run(lambda: self._client().request("look", shell=self._shell))
        return KeptRange(wire_fields.integer(look, "start"), wire_fields.integer(look, "offset"))

    def segments(self, start: int, end: int) -> list[bytes]:
        """Yield the index of a part of the output."""
        return self._reconnection.run(lambda: self._segments(start, end))

    def output(self, start: int, end: int) -> Iterator[Chunk | CastGap]:
        """Yield a part of the output."""
        at = start
        while at < end:
            items = self._reconnection.run(lambda at=at: self._range(at, end))  # type: ignore[misc]
            if not items:
                return
            yield from items
            last = items[-1]
            at = last.next if isinstance(last, Chunk) else last.offset + last.size

    def _segments(self, start: int, end: int) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        with self._client().open("recording", shell=self._shell, start=start, end=end) as connection:
            for frame in connection.events(bounded=True):
                if wire_fields.event(frame) == "segment":
                    size += len(frame.payload)
                    if size > MOST_INDEX:
                        break
                    found.append(frame.payload)
        return found

    def _range(self, start: int, end: int) -> list[Chunk | CastGap]:
        found: list[Chunk | CastGap] = []
        at, size = start, 0
        args: dict[str, Any] = {"shell": self._shell, "offset": start, "end": end}
        with self._client().open("read", follow=False, **args) as connection:
            for frame in connection.events(bounded=True):
                size += len(frame.payload)
                match wire_fields.event(frame):
                    case "output":
                        offset, following = (
                            wire_fields.integer(frame, "offset"),
                            wire_fields.integer(frame, "next"),
                        )
                        found.append(Chunk(offset, frame.payload, max(following, at + 1)))
                        at = found[-1].next if isinstance(found[-1], Chunk) else at
                    case "gap":
                        gap = CastGap(
                            wire_fields.integer(frame, "offset"), wire_fields.integer(frame, "size", 1)
                        )
                        found.append(gap)
                        at = gap.offset + gap.size
                if max(at - start, size) >= RANGE or len(found) >= MOST_PIECES:
                    break
        return found
