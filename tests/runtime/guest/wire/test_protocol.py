import json

import pytest

from holdfast.runtime.guest.wire.protocol import (
    MAX_HEAD,
    MAX_PAYLOAD,
    Frame,
    FrameError,
    FrameReader,
    encode,
)

FRAMES = [
    Frame({"op": "hello", "v": 1}),
    Frame({"op": "send", "text": "été\n"}, b"\x00\xff" * 500),
    Frame({"event": "output", "offset": 2**40}, b"x"),
]


def test_frames_survive_any_cutting() -> None:
    """Frames come back whole however the stream is cut."""
    stream = b"".join(encode(frame) for frame in FRAMES)
    for size in (1, 2, 7, 8, 9, 300, len(stream)):
        reader = FrameReader()
        got = [frame for at in range(0, len(stream), size) for frame in reader.feed(stream[at : at + size])]
        assert got == FRAMES
        assert reader.pending == 0


def test_end_event_and_op_are_read_from_the_head() -> None:
    """The last frame of a connection says so, and wrong types are not taken for names."""
    assert Frame({"event": "ok", "end": True}).end
    assert not Frame({"event": "ok", "end": 1}).end
    assert Frame({"event": 7}).event == ""
    assert Frame({"op": "ls"}).op == "ls"


@pytest.mark.parametrize("lengths", [(MAX_HEAD + 1, 0), (2, MAX_PAYLOAD + 1), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_lengths_over_the_limit_are_refused_before_the_body(lengths: tuple[int, int]) -> None:
    """A length over the limit is refused before a byte of the body is awaited."""
    head = b"".join(length.to_bytes(4, "big") for length in lengths)
    with pytest.raises(FrameError):
        FrameReader().feed(head)


@pytest.mark.parametrize("body", [b"[1]", b"nope", b"\xff\xfe", b"[" * 100_000, b""])
def test_a_head_that_is_not_an_object_is_refused(body: bytes) -> None:
    """Only a JSON object is a head."""
    with pytest.raises(FrameError):
        FrameReader().feed(len(body).to_bytes(4, "big") + bytes(4) + body)


def test_encoding_also_checks_the_limits() -> None:
    """A frame that no peer could read is not written."""
    with pytest.raises(FrameError):
        encode(Frame({}, bytes(MAX_PAYLOAD + 1)))
    with pytest.raises(FrameError):
        encode(Frame({"text": "x" * MAX_HEAD}))


def test_lone_surrogates_do_not_break_the_stream() -> None:
    """Text that is not valid Unicode still makes a readable frame."""
    (frame,) = FrameReader().feed(encode(Frame({"text": json.loads('"\\ud800"')})))
    assert frame.head["text"] == "?"
