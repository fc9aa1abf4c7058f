from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator

import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.attachment.screen_state import render, shown
from holdfast.runtime.guest.records.timeline import Encoder, Moment, MomentKind, Start
from holdfast.runtime.history.recording.cast import CastEvent, CastGap, Chunk, lines, merge
from holdfast.runtime.history.recording.recording import KeptRange, Recording, RecordingPoint, scrubbed
from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.terminal.emulator import Emulator


def out(at: float, offset: int) -> Moment:
    return Moment(MomentKind.OUTPUT, at, offset)


def text(events: list[CastEvent]) -> str:
    return "".join(event.data for event in events if event.code == "o")


class Source:
    """A recording in memory; `dropped` bytes at its beginning are not kept."""

    def __init__(self, data: bytes, moments: list[Moment], dropped: int = 0) -> None:
        self._data, self._dropped = data, dropped
        encoder = Encoder(Start(moments[0].at, 0, 5, 20))
        self.segment = encoder.head + b"".join(encoder.encode(moment) for moment in moments)

    def kept(self) -> KeptRange:
        return KeptRange(self._dropped, len(self._data))

    def segments(self, start: int, end: int) -> list[bytes]:
        return [self.segment]

    def output(self, start: int, end: int) -> Iterator[Chunk | CastGap]:
        if start < self._dropped:
            yield CastGap(start, self._dropped - start)
            start = self._dropped
        for at in range(start, end, 3):
            stop = min(at + 3, end)
            yield Chunk(at, self._data[at:stop], stop)


def test_output_has_the_time_of_its_arrival() -> None:
    """Pieces and timestamps have different borders; every byte is written once, at its time."""
    chunks = [Chunk(0, b"ab", 2), Chunk(2, b"cdef", 10), Chunk(10, b"g", 11)]

    events = list(merge([out(1.0, 3), out(2.0, 10), out(3.0, 11)], chunks, 0, 0.0))

    assert [(event.at, event.data) for event in events] == [(1.0, "abc"), (2.0, "def"), (3.0, "g")]


def test_characters_are_complete() -> None:
    """A character whose bytes came one after the other is written when it is complete."""
    data = "né€!".encode()
    chunks = [Chunk(at, data[at : at + 1], at + 1) for at in range(len(data))]

    events = list(merge([out(float(n), n + 1) for n in range(len(data))], chunks, 0, 0.0))

    assert [event.data for event in events] == ["n", "é", "€", "!"]


def test_sizes_input_and_gaps_have_their_place() -> None:
    """They stand between the output before and after them; hidden input is not written."""
    moments = [
        out(1.0, 5),
        Moment(MomentKind.RESIZE, 2.0, 5, rows=24, columns=80),
        Moment(MomentKind.INPUT, 3.0, 5, text="é".encode(), size=2),
        Moment(MomentKind.HIDDEN, 4.0, 5, size=9),
        out(5.0, 9),
    ]

    events = list(merge(moments, [CastGap(0, 3), Chunk(3, b"ab", 5), Chunk(5, b"cdef", 9)], 0, 0.0))

    assert [(event.code, event.data) for event in events] == [
        ("m", "3 bytes are no longer kept"),
        ("o", "ab"),
        ("r", "80x24"),
        ("i", "é"),
        ("o", "cdef"),
    ]


def test_any_cut_of_anything_gives_the_same_text() -> None:
    """However output and timestamps are cut, the text is the same and times do not fall."""
    rng = random.Random(4)
    data = ("日本 text é " * 20).encode()
    for _ in range(50):
        cuts = [*sorted(rng.sample(range(1, len(data)), 12)), len(data)]
        chunks = [Chunk(a, data[a:b], b) for a, b in zip([0, *cuts], cuts, strict=False)]
        marks = sorted(rng.sample(range(1, len(data)), 9))
        events = list(merge([out(float(n), mark) for n, mark in enumerate(marks)], chunks, 0, 0.0))

        assert text(events) == data.decode()
        assert [event.at for event in events] == sorted(event.at for event in events)


def test_a_cast_is_as_documented() -> None:
    """Version 2: a header with size and time, then lists of seconds, code and text."""
    events = [CastEvent(100.5, "o", "é\x1b[1m\r\n", 5), CastEvent(101.0, "r", "80x24", 5)]

    first, *rest = [json.loads(line) for line in lines(events, 40, 120, 100.0, "work")]

    assert {key: first[key] for key in ("version", "width", "height", "timestamp", "title")} == {
        "version": 2,
        "width": 120,
        "height": 40,
        "timestamp": 100,
        "title": "work",
    }
    assert rest == [[0.5, "o", "é\x1b[1m\r\n"], [1.0, "r", "80x24"]]


DATA = b"one\r\n\x1b[31mtwo\x1b[0m\r\nthree\r\nfour"
TIMES = [out(10.0, 5), out(20.0, 19), out(30.0, 26), out(40.0, len(DATA))]


def test_a_complete_recording_shows_the_screen() -> None:
    """All of its output, given to a terminal, shows the session's screen."""
    recording = Recording(Source(DATA, TIMES))
    file = io.StringIO()
    recording.write(file)
    header, *events = [json.loads(line) for line in file.getvalue().splitlines()]

    assert (header["height"], header["width"], header["timestamp"]) == (5, 20, 10)
    assert [event[0] for event in events] == [0.0, 10.0, 20.0, 30.0]
    played = "".join(event[2] for event in events).encode()
    assert render(played, 5, 20) == render(DATA, 5, 20)


@pytest.mark.parametrize("start", range(1, len(DATA) - 1))
def test_a_part_begins_with_the_screen_at_its_start(start: int) -> None:
    """From any offset on, its end looks like the end of the whole."""
    part = Emulator(5, 20)
    for event in Recording(Source(DATA, TIMES), RecordingPoint(offset=start)).events():
        part.feed_bytes(event.data.encode())

    assert shown(part).text == render(DATA, 5, 20).text


def test_a_part_by_time() -> None:
    """A time stands for the output that was there then."""
    recording = Recording(Source(DATA, TIMES), RecordingPoint(at=20.5), RecordingPoint(at=30.0))

    assert (recording.start, recording.end) == (19, 26)
    assert text(list(recording.events())).endswith("three\r\n")
    with pytest.raises(InvalidArgument, match="nothing was shown"):
        Recording(Source(DATA, TIMES), RecordingPoint(at=100.0))


def test_missing_requirements_are_reported() -> None:
    """A part that begins before what is kept says by how much."""
    recording = Recording(Source(DATA, TIMES, dropped=5), RecordingPoint(offset=2))

    assert recording.missing == 3
    assert next(event.code for event in recording.events()) == "m"


def test_a_broken_index_is_an_error_of_the_session() -> None:
    """Data of a hostile guest is not an index."""
    source = Source(DATA, TIMES)
    source.segment = b"junk" * 20
    with pytest.raises(ProtocolError):
        Recording(source)


@pytest.mark.parametrize("size", [1, 3, 10, 39])
def test_a_cast_holds_no_secret_however_its_output_was_cut(size: int) -> None:
    """Output and input each are one stream; times stay in order, and other events where they are."""
    token = SECRETS["github token"][0]
    text = f"é$ echo {token}\r\n{token}\r\ndone"
    events = []
    for n, at in enumerate(range(0, len(text), size)):
        events.append(CastEvent(100.0 + n, "o", text[at : at + size], at))
        events.append(CastEvent(100.0 + n, "i", text[at : at + size], at))
        if n == 1:
            events.append(CastEvent(101.5, "r", "80x24", at))

    found = list(scrubbed(events, Matcher(RULES)))

    for code in ("o", "i"):
        shown = "".join(event.data for event in found if event.code == code)
        assert shown == text.replace(token, "[scrubbed: github token]")
    assert [event.at for event in found] == sorted(event.at for event in found)
    assert [event.data for event in found if event.code == "r"] == ["80x24"]


def test_a_recording_is_written_without_secrets_unless_it_is_raw() -> None:
    """As a whole, by the rules it is given."""
    token = SECRETS["npm token"][0]
    data = f"a {token}\r\nb".encode()
    times = [out(10.0, 5), out(20.0, 9), out(30.0, len(data))]
    clean, raw = io.StringIO(), io.StringIO()

    Recording(Source(data, times)).write(clean, matcher=Matcher(RULES))
    Recording(Source(data, times)).write(raw, raw=True, matcher=Matcher(RULES))

    told = [
        "".join(json.loads(line)[2] for line in file.getvalue().splitlines()[1:]) for file in (clean, raw)
    ]
    assert told == ["a [scrubbed: npm token]\r\nb", data.decode()]
