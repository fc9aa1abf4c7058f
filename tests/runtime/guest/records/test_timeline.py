from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.guest.records.terminal_recording import ShellRecording
from holdfast.runtime.guest.records.timeline import (
    Encoder,
    Malformed,
    Moment,
    MomentKind,
    Start,
    decode,
    start_of,
)
from holdfast.runtime.guest.shells.shell_output import ScreenModes
from holdfast.runtime.guest.shells.terminal import TerminalSize
from holdfast.runtime.guest.shells.typed import Burst, Echo, Typed, Typing, echo_of


class Loop:
    """Stands for the event loop where nothing waits for a flush."""

    def call_later(self, *_: Any) -> Any:
        return self

    def cancel(self) -> None:
        """Nothing to cancel."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by the test."""
    monkeypatch.setattr("asyncio.get_running_loop", Loop)
    return [1000.0]


def recorded(folder: Path, clock: list[float], **limits: int) -> ShellRecording:
    return ShellRecording(folder, TerminalSize(40, 120), lambda: clock[0], **limits)


def moments(recording: ShellRecording, start: int = 0, end: int = 2**60) -> list[Moment]:
    return [m for number in recording.segments(start, end) for m in decode(recording.read(number))]


def test_encoding_and_decoding_agree() -> None:
    """Each kind of moment comes back, times to the millisecond."""
    encoder = Encoder(Start(1000.5, 7, 40, 120))
    wanted = [
        Moment(MomentKind.OUTPUT, 1000.5, 9),
        Moment(MomentKind.RESIZE, 1001.25, 9, rows=24, columns=80),
        Moment(MomentKind.INPUT, 1001.25, 9, text="é\r".encode(), size=3),
        Moment(MomentKind.HIDDEN, 5000.0, 300, size=12),
    ]
    segment = encoder.head + b"".join(encoder.encode(moment) for moment in wanted)

    assert start_of(segment) == Start(1000.5, 7, 40, 120)
    assert list(decode(segment)) == wanted
    for cut in range(len(encoder.head), len(segment)):
        assert list(decode(segment[:cut])) == wanted[: len(list(decode(segment[:cut])))]


def test_recorded_time_never_runs_backward() -> None:
    """Times never fall, whatever the clock does."""
    encoder = Encoder(Start(1000.0, 0, 40, 120))
    data = b"".join(
        encoder.encode(Moment(MomentKind.OUTPUT, at, n)) for n, at in enumerate((1001.0, 900.0, 1001.5))
    )

    assert [moment.at for moment in decode(encoder.head + data)] == [1001.0, 1001.0, 1001.5]


def test_broken_bytes_are_refused_or_ignored() -> None:
    """Whatever a hostile guest sends, the only error is Malformed."""
    rng = random.Random(5)
    head = Encoder(Start(1000.0, 0, 40, 120)).head
    for _ in range(500):
        try:
            list(decode(head + rng.randbytes(60)))
        except Malformed:
            continue
    for wrong in (b"", b"HFT1", b"nope" + head[4:], head[:-2] + b"\0\0"):
        with pytest.raises(Malformed):
            list(decode(wrong))


def test_bytes_that_come_together_are_one_moment(tmp_path: Path, clock: list[float]) -> None:
    """Within a few milliseconds only the last offset counts; later bytes are another moment."""
    recording = recorded(tmp_path / "r", clock)
    for end, step in ((10, 0.001), (20, 0.001), (30, 0.1), (40, 0.0)):
        recording.output(end)
        clock[0] += step

    assert [moment.offset for moment in moments(recording)] == [30, 40]


def test_old_segments_go_with_the_bound_and_with_the_output(tmp_path: Path, clock: list[float]) -> None:
    """The rest is whole, begins at a segment, and can be read by offset."""
    recording = recorded(tmp_path / "r", clock, segment_size=64, capacity=640)
    for end in range(100, 100_000, 100):
        clock[0] += 1.0
        recording.output(end)
    kept = moments(recording)
    assert kept[-1].offset == 99_900
    assert len(list((tmp_path / "r").iterdir())) <= 10
    assert moments(recording, 99_000, 99_100)[0].offset <= 99_000

    recording.trim(99_500)
    assert moments(recording)[0].offset > kept[0].offset
    assert moments(recording)[-1].offset == 99_900


def test_only_known_editors_echo() -> None:
    """Only echo and the shell's own prompt are known to show typed text."""
    assert echo_of(canonical=True, echo=True, at_prompt=False) is Echo.TERMINAL
    assert echo_of(canonical=True, echo=False, at_prompt=True) is Echo.SECRET
    assert echo_of(canonical=False, echo=False, at_prompt=True) is Echo.PROMPT
    assert echo_of(canonical=False, echo=True, at_prompt=False) is Echo.NOBODY


def test_after_a_line_at_the_prompt_nothing_is_kept_until_the_next() -> None:
    """A password that is typed ahead, or pasted with the command that asks for it, is only counted."""
    typing = Typing()

    assert typing.judge(b"ec", Echo.PROMPT, Echo.PROMPT, 1) == [Typed(2, b"ec")]
    assert typing.judge(b"ho\rsecret\r", Echo.PROMPT, Echo.PROMPT, 1) == [Typed(3, b"ho\r"), Typed(7, None)]
    assert typing.judge(b"more", Echo.PROMPT, Echo.PROMPT, 1) == [Typed(4, None)]
    assert typing.judge(b"ls", Echo.PROMPT, Echo.PROMPT, 2) == [Typed(2, b"ls")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Echo.SECRET, Echo.SECRET),
        (Echo.SECRET, Echo.TERMINAL),
        (Echo.TERMINAL, Echo.SECRET),
        (Echo.NOBODY, Echo.NOBODY),
        (Echo.NOBODY, Echo.PROMPT),
    ],
)
def test_input_without_a_known_echo_is_not_kept(before: Echo, after: Echo) -> None:
    """Where the echo is off, goes off, or a program reads raw keys."""
    assert Typing().judge(b"hunter2\r", before, after, 1) == [Typed(8, None)]


def test_a_burst_with_a_hidden_part_has_no_text() -> None:
    """Its size is whole, its text is bounded."""
    burst = Burst("person:alice")
    burst.add([Typed(3, b"abc")])
    assert (burst.size, burst.text) == (3, "abc")
    burst.add([Typed(5000, b"x" * 5000)])
    assert len(burst.text or "") == Burst.LIMIT
    burst.add([Typed(4, None)])
    assert (burst.size, burst.hidden, burst.text) == (5007, True, None)


def test_the_picture_is_the_same_in_any_pieces() -> None:
    """Sequences that are cut by the end of a read are found, and found once."""
    output = (
        b"$ vi\r\n\x1b[?1049h\x1b[?1;1002h\x1b=\x1b[2Jtext\x1b[?25lmore\x1b[31m"
        b"\x1b[?1049l\x1b[?1002lafter\x1b[?2004h\x1b[?1049hagain"
    )
    whole = ScreenModes()
    whole.feed(output, 0)
    assert whole.entered == output.rindex(b"\x1b[?1049h")
    assert whole.left is None
    assert whole.erased == output.index(b"\x1b[2J")
    assert whole.modes == {1, 7, 2004}
    rng = random.Random(2)
    for _ in range(200):
        pieces, at = ScreenModes(), 0
        while at < len(output):
            size = rng.randrange(1, 9)
            pieces.feed(output[at : at + size], at)
            at += size
        assert pieces.describe() == whole.describe()
