"""A recording without secrets, even those that were split across events. Pure.

Text that may become a secret is held back until what follows is known, and shown with that. Times and offsets
stay in order.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdfast.runtime.history.recording.cast import CastEvent
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.scrubber import ScrubbedStream, Scrubber


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
