"""The recording of a shell's terminal, or a part of it: played, or written as a cast.

Where it comes from (a running session, a container that has ended) is the source's business. A part begins
with the screen at that time. Nothing is held in memory but an index of a few MiB.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import IO, Protocol

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.guest.records import timeline
from holdfast.runtime.guest.records.timeline import Moment, MomentKind
from holdfast.runtime.history.recording import cast
from holdfast.runtime.history.recording.cast import CastEvent, CastGap, Chunk
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.scrubber import ScrubbedStream, Scrubber

# Output that is rendered into the screen at the start of a part; see `screen_state.py`.
TAIL = 256 << 10


@dataclass(frozen=True, slots=True)
class KeptRange:
    """The range of output that is kept, as offsets."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """The facts of a part of a recording: offsets of the output, and the size of the terminal at its start.

    `kept_start` and `kept_end` are the range of output that is kept; the first `missing` bytes of the part
    are not in it. `begun` is in Unix seconds.
    """

    start: int
    end: int
    kept_start: int
    kept_end: int
    missing: int
    begun: float
    rows: int
    cols: int
    title: str


class RecordingSource(Protocol):
    """The source of output and index."""

    def kept(self) -> KeptRange:
        """Return the range of output that is kept."""

    def segments(self, start: int, end: int) -> list[bytes]:
        """Yield the index of a part of the output."""

    def output(self, start: int, end: int) -> Iterator[Chunk | CastGap]:
        """Yield a part of the output, without marks."""


@dataclass(frozen=True, slots=True)
class RecordingPoint:
    """The beginning or end of a part: an offset of the output, or a time in Unix seconds."""

    offset: int | None = None
    at: float | None = None


class Recording:
    """A part of a terminal's output between two places; by default all the kept output."""

    def __init__(
        self,
        source: RecordingSource,
        start: RecordingPoint | None = None,
        end: RecordingPoint | None = None,
        *,
        title: str = "",
    ) -> None:
        """Locate the part.

        Raises:
            InvalidArgument: the part is empty.
        """
        self._source = source
        self.kept = source.kept()
        self.title = plain(title, 200)
        segments = source.segments(self.kept.start, self.kept.end)
        self._moments = _Moments(segments)
        self.start = self._offset(start, self.kept.start)
        self.end = self._offset(end, self.kept.end)
        if self.start >= self.end:
            raise InvalidArgument(
                f"cannot replay: nothing was shown between offsets {self.start} and {self.end}",
                hint=f"the output from offset {self.kept.start} to {self.kept.end} is kept",
            )
        self.missing = max(0, self.kept.start - self.start)
        """The bytes at its beginning that are no longer kept."""
        self.begun, self.rows, self.cols = self._moments.state(self.start)

    def events(self) -> Iterator[CastEvent]:
        """Yield the events in order; first the initial screen, if there was earlier output."""
        opening, start = self._opening()
        if opening:
            yield CastEvent(self.begun, "o", opening, start)
        output = self._source.output(start, self.end)
        for event in cast.merge(self._moments.within(self.end), output, start, self.begun):
            if event.offset > self.end:
                return
            yield event

    def write(self, file: IO[str], *, raw: bool = False, matcher: Matcher | None = None) -> int:
        """Write it as asciicast v2 and return the number of events.

        Its output is filtered for the terminals it will be played on, and secrets that `matcher` finds are
        removed, unless `raw`.
        """
        count = -1
        events = self.events()
        if not raw:
            events = cast.safe(events)
            events = events if matcher is None else scrubbed(events, matcher)
        for line in cast.lines(events, self.rows, self.cols, self.begun, self.title):
            file.write(line)
            count += 1
        return count

    def _opening(self) -> tuple[str, int]:
        """Return the output that leads to the first screen, and the offset at which to continue.

        A sequence can be cut at the beginning.
        """
        from holdfast.runtime.terminal.emulator import Emulator
        from holdfast.runtime.terminal.redraw import redraw

        begin = max(self.kept.start, self.start - TAIL)
        if begin >= self.start:
            return "", self.start
        terminal = Emulator(self.rows, self.cols)
        for item in self._source.output(begin, self.start):
            if isinstance(item, Chunk):
                terminal.feed_bytes(item.data)
        return redraw(terminal).decode("utf-8", "replace"), self.start - len(terminal.unfinished)

    def _offset(self, place: RecordingPoint | None, default: int) -> int:
        if place is None:
            return default
        if place.offset is not None:
            return min(place.offset, self.kept.end)
        return self._moments.offset_at(place.at or 0.0, default)


def part_of(found: Recording) -> RecordingPart:
    """Return the facts of a recording."""
    about = (found.missing, found.begun, found.rows, found.cols, found.title)
    return RecordingPart(found.start, found.end, found.kept.start, found.kept.end, *about)


class _Moments:
    """The index, decoded for each use: a few MiB as bytes, too much as objects."""

    def __init__(self, segments: list[bytes]) -> None:
        self._segments = segments

    def __iter__(self) -> Iterator[Moment]:
        try:
            for segment in self._segments:
                yield from timeline.decode(segment)
        except timeline.Malformed as error:
            raise ProtocolError(f"cannot understand the session: {error}") from error

    def within(self, end: int) -> Iterator[Moment]:
        """Yield the index up to an offset."""
        for moment in self:
            if moment.offset > end and moment.kind is not MomentKind.OUTPUT:
                return
            yield moment
            if moment.offset >= end and moment.kind is MomentKind.OUTPUT:
                return

    def state(self, offset: int) -> tuple[float, int, int]:
        """Return the time of the byte at an offset, and the terminal's rows and columns then."""
        at, rows, cols = 0.0, 24, 80
        if self._segments:
            try:
                start = timeline.start_of(self._segments[0])
            except timeline.Malformed as error:
                raise ProtocolError(f"cannot understand the session: {error}") from error
            at, rows, cols = start.at, start.rows, start.columns
        for moment in self:
            if moment.kind is MomentKind.RESIZE and moment.offset <= offset:
                rows, cols = moment.rows, moment.columns
            at = moment.at
            if moment.offset > offset:
                break
        return at, rows, cols

    def offset_at(self, at: float, default: int) -> int:
        """Return how much had been shown by a time."""
        found = None
        for moment in self:
            if moment.at > at:
                break
            found = moment.offset
        return default if found is None else found


class _Flow:
    """All output, or all input."""

    def __init__(self, matcher: Matcher) -> None:
        self._stream = ScrubbedStream(Scrubber(matcher))
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._last: CastEvent | None = None

    def feed(self, event: CastEvent) -> Iterator[CastEvent]:
        self._last = event
        if text := self._decode(self._stream.feed(event.data.encode("utf-8", "surrogatepass"))):
            yield replace(event, data=text)

    def end(self, at: float) -> Iterator[CastEvent]:
        text = self._decode(self._stream.end(), final=True)
        if text and self._last is not None:
            yield replace(self._last, data=text, at=at)


def scrubbed(events: Iterable[CastEvent], matcher: Matcher) -> Iterator[CastEvent]:
    """Yield the events without anything that the matcher finds in output and input."""
    flows = {code: _Flow(matcher) for code in ("o", "i")}
    at = 0.0
    for event in events:
        at = event.at
        if flow := flows.get(event.code):
            yield from flow.feed(event)
        else:
            yield event
    for flow in flows.values():
        yield from flow.end(at)
