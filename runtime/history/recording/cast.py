"""A recording as events of asciicast v2, the format of asciinema.  Pure.

https://docs.asciinema.org/manual/asciicast/v2/: a header object, then one list per line: seconds since the
start, a code (`o` output, `i` input, `r` resize, `m` marker), and text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from holdfast.base import printable_json
from holdfast.runtime.guest.records.timeline import Moment, MomentKind
from holdfast.runtime.terminal.safe_output import SafeOutput


@dataclass(frozen=True, slots=True)
class Chunk:
    """Output without marks at an offset; `next` is the offset after it and the marks that follow."""

    offset: int
    data: bytes
    next: int


@dataclass(frozen=True, slots=True)
class CastGap:
    """Output that is no longer kept."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CastEvent:
    """One line of a cast. `at` is in Unix seconds, `offset` a position in the shell's output."""

    at: float
    code: Literal["o", "i", "r", "m"]
    data: str
    offset: int


def merge(
    moments: Iterable[Moment], output: Iterable[Chunk | CastGap], start: int, begun: float
) -> Iterator[CastEvent]:
    """Give the output from offset `start` on the times of the index, and add its other events.

    Output after the last indexed time has that time; before the first one, `begun`. Text is split between
    characters.
    """
    queue = _Queue(iter(output))
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    at = begun
    for moment in moments:
        if moment.offset < start or (moment.offset == start and moment.kind is MomentKind.OUTPUT):
            at = max(at, moment.at)
            continue
        at = max(at, moment.at)
        yield from _shown(queue.until(moment.offset), at, decode)
        if moment.kind is MomentKind.RESIZE:
            yield CastEvent(at, "r", f"{moment.columns}x{moment.rows}", moment.offset)
        elif moment.kind is MomentKind.INPUT:
            yield CastEvent(at, "i", moment.text.decode("utf-8", "replace"), moment.offset)
    yield from _shown(queue.until(None), at, decode)


def safe(events: Iterable[CastEvent]) -> Iterator[CastEvent]:
    """Filter the output of events to the parts that are safe for any terminal."""
    output = SafeOutput()
    for event in events:
        if event.code != "o":
            yield event
        elif text := output.feed_text(event.data):
            yield replace(event, data=text)


def lines(events: Iterable[CastEvent], rows: int, cols: int, begun: float, title: str) -> Iterator[str]:
    """Yield the lines of a cast file."""
    header: dict[str, Any] = {
        "version": 2,
        "width": cols,
        "height": rows,
        "timestamp": int(begun),
        "env": {"TERM": "xterm-256color", "SHELL": "/bin/bash"},
    }
    if title:
        header["title"] = title
    yield printable_json.dumps(header) + "\n"
    for event in events:
        yield printable_json.dumps([round(max(0.0, event.at - begun), 3), event.code, event.data]) + "\n"


class _Queue:
    """Output that is consumed piece by piece, by offset."""

    def __init__(self, output: Iterator[Chunk | CastGap]) -> None:
        self._output = output
        self._held: Chunk | CastGap | None = None

    def until(self, end: int | None) -> Iterator[Chunk | CastGap]:
        while (item := self._held or next(self._output, None)) is not None:
            self._held = None
            if end is not None and item.offset >= end:
                self._held = item
                return
            if isinstance(item, Chunk) and end is not None and end < item.offset + len(item.data):
                cut = end - item.offset
                self._held = Chunk(end, item.data[cut:], item.next)
                yield Chunk(item.offset, item.data[:cut], end)
                return
            yield item


def _shown(items: Iterator[Chunk | CastGap], at: float, decode: Any) -> Iterator[CastEvent]:
    text, offset = "", 0
    for item in items:
        if isinstance(item, CastGap):
            if text:
                yield CastEvent(at, "o", text, offset)
            text = ""
            yield CastEvent(at, "m", f"{item.size} bytes are no longer kept", item.offset)
            continue
        text += decode(item.data)
        offset = item.next
        if len(text) > 1 << 16:
            yield CastEvent(at, "o", text, offset)
            text = ""
    if text:
        yield CastEvent(at, "o", text, offset)
