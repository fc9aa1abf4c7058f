"""Frames, however the connection cuts them."""

from __future__ import annotations

import pytest

from holdfast.runtime.remote.relay_frames import EXIT, INPUT, LARGEST, OUTPUT, frame, frames


@pytest.mark.parametrize("size", [1, 4, 5, 1000])
def test_frames_come_out_as_they_went_in(size: int) -> None:
    sent = [(OUTPUT, b"some text"), (INPUT, b""), (EXIT, b"0"), (OUTPUT, bytes(range(256)))]
    data = b"".join(frame(*each) for each in sent)
    pieces = frames()
    assert [each for at in range(0, len(data), size) for each in pieces.feed(data[at : at + size])] == sent


def test_another_protocol_is_not_waited_for() -> None:
    with pytest.raises(ValueError, match="too long"):
        list(frames().feed(OUTPUT + (LARGEST + 1).to_bytes(4)))
