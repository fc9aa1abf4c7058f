"""What a terminal of a session showed, over a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import IO, Any

from holdfast.runtime.client import insight_values
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.http_call import HttpCall
from holdfast.runtime.history.recording.cast import CastEvent
from holdfast.runtime.history.recording.recording import KeptRange


class AsyncRecording:
    """A part of what a terminal showed, as `Recording` is: `start` and `end` are offsets of its output."""

    def __init__(self, transport: AsyncTransport, path: str, told: Mapping[str, Any]) -> None:
        self._transport, self._path = transport, path
        found = insight_values.recording_part(told)
        self.kept = KeptRange(found.kept_start, found.kept_end)
        self.start, self.end, self.missing = found.start, found.end, found.missing
        self.begun, self.rows, self.cols, self.title = found.begun, found.rows, found.cols, found.title

    async def events(self) -> AsyncIterator[CastEvent]:
        """Yield what happened, in order; first the screen it begins with, if anything was shown before."""
        rest = b""
        async with self._transport.bytes_of(self._call("events"), {}) as body:
            async for part in body:
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield insight_values.cast_event(line)

    async def write(self, file: IO[str], *, raw: bool = False) -> int:
        """Write it as asciicast v2 and return the number of events.

        Its output is filtered for the terminals it will be played on, and secrets that the server's rules
        find are removed, unless `raw`.
        """
        count, rest = -1, b""
        async with self._transport.bytes_of(self._call("cast", raw=raw), {}) as body:
            async for part in body:
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    file.write(line.decode("utf-8", "replace") + "\n")
                    count += 1
        return count

    def _call(self, what: str, **params: Any) -> HttpCall:
        # The part is named by offsets: a time ago, or the end, would be another one by now.
        places = {"start": str(self.start), "end": str(self.end)}
        return HttpCall("GET", f"{self._path}/{what}", {**places, **params})
