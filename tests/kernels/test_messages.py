import json
from typing import Any

import pytest

from holdfast.kernels.guest.messages import STREAM_CHUNK, Cell, CellStatus, events_of
from holdfast.runtime.guest.wire.protocol import MAX_PAYLOAD, encode

OK: dict[str, Any] = {"status": "ok", "execution_count": 4}
INTERRUPT: dict[str, Any] = {"status": "error", "ename": "KeyboardInterrupt", "execution_count": 4}


@pytest.mark.parametrize("idle_first", [True, False])
def test_a_cell_is_over_when_it_has_both_the_reply_and_the_idle_state(idle_first: bool) -> None:
    """Reply and idle state come on two channels, in any order; one is not enough."""
    cell = Cell("c")
    for step in ("idle", "reply") if idle_first else ("reply", "idle"):
        assert not cell.over
        if step == "idle":
            cell.idle()
        else:
            cell.replied(OK)
    assert (cell.status, cell.execution_count) == (CellStatus.OK, 4)


def finished(cell: Cell, reply: dict[str, Any]) -> CellStatus | None:
    cell.replied(reply)
    cell.idle()
    return cell.status


def test_a_requested_interrupt_is_not_an_error() -> None:
    """KeyboardInterrupt is an error of the code unless the cell was interrupted, or its time was up."""
    assert finished(Cell("c"), INTERRUPT) is CellStatus.ERROR
    assert finished(Cell("c", interrupted=True), INTERRUPT) is CellStatus.INTERRUPTED
    assert finished(Cell("c", timed_out=True), INTERRUPT) is CellStatus.TIMEOUT
    assert finished(Cell("c", timed_out=True), OK) is CellStatus.OK


def test_the_first_outcome_stays() -> None:
    """A cell reported as timed out does not become ok when its reply comes after all."""
    cell = Cell("c")
    cell.end(CellStatus.TIMEOUT)
    assert not cell.settled
    assert finished(cell, OK) is CellStatus.TIMEOUT
    assert cell.settled


def test_text_is_cut_into_frames_and_nothing_is_lost() -> None:
    """A stream message of any size becomes frames under the limit."""
    text = "é" * STREAM_CHUNK + "end"
    frames = list(events_of("stream", {"name": "stderr", "text": text}))
    assert len(frames) == 3
    assert b"".join(frame.payload for frame in frames).decode() == text
    assert {frame.head["name"] for frame in frames} == {"stderr"}


def test_rich_output_keeps_its_parts() -> None:
    """A result's mime bundle, metadata and count arrive as they were."""
    content = {"data": {"text/html": "<b>"}, "metadata": {"a": 1}, "execution_count": 3, "transient": {}}
    (frame,) = events_of("execute_result", content)
    assert frame.event == "execute_result"
    assert json.loads(frame.payload) == content


def test_output_over_the_limit_is_replaced_by_a_note() -> None:
    """Output too large for a frame is named with its size, not dropped."""
    (frame,) = events_of("display_data", {"data": {"text/plain": "x" * MAX_PAYLOAD}, "metadata": {}})
    told = json.loads(frame.payload)
    assert "was left out" in told["data"]["text/plain"]
    assert told["left_out"] > MAX_PAYLOAD


def test_errors_carry_their_traceback() -> None:
    """An error has its name, value and traceback."""
    (frame,) = events_of("error", {"ename": "E", "evalue": "v", "traceback": ["a", "b"]})
    assert frame.event == "error_output"
    assert json.loads(frame.payload) == {"ename": "E", "evalue": "v", "traceback": ["a", "b"]}


UNPARSED: dict[str, Any] = {
    "status": "error",
    "execution_count": 6,
    "ename": "Error",
    "evalue": "Execution failed",
    "traceback": [],
}
"""What Deno's kernel replies to `for (`; it sends no `error` with it."""


def test_an_error_of_the_reply_alone_is_shown() -> None:
    """Once; and not if the kernel has shown it, or the cell has another outcome."""
    cell = Cell("c")
    assert finished(cell, UNPARSED) is CellStatus.ERROR
    (frame,) = cell.unshown()
    told = json.loads(frame.payload)
    assert (frame.event, told["ename"], told["evalue"]) == ("error_output", "Error", "Execution failed")
    assert told["traceback"][0] == "Error: Execution failed"
    assert list(cell.unshown()) == []
    shown, late, fine = Cell("c", raised=True), Cell("c"), Cell("c")
    late.end(CellStatus.TIMEOUT)
    for cell, reply in ((shown, UNPARSED), (late, UNPARSED), (fine, OK)):
        finished(cell, reply)
        assert list(cell.unshown()) == []
    odd = Cell("c")
    finished(odd, {"status": "error", "ename": 3, "traceback": "x"})
    assert [frame.event for frame in odd.unshown()] == ["error_output"]


def test_the_message_of_an_error_has_a_limit() -> None:
    """The host takes a million characters of a text; an error whose message has more is one nevertheless."""
    for length, cut in ((1_000_000, False), (1_000_001, True), (MAX_PAYLOAD, True)):
        (frame,) = events_of("error", {"ename": "E", "evalue": "v" * length, "traceback": ["t" * length]})
        told = json.loads(frame.payload)["evalue"]
        assert len(told) <= 1_000_000
        assert told.endswith("characters were left out]") is cut


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("stream", {}),
        ("stream", {"text": 7, "name": []}),
        ("error", {"traceback": "no list"}),
        ("input_request", {"prompt": "x" * (4 << 20)}),
        ("display_data", {}),
        ("comm_open", {"data": {}}),
    ],
)
def test_odd_messages_make_frames_that_can_be_sent(kind: str, content: dict[str, Any]) -> None:
    """A kernel can send anything; the result keeps to the protocol."""
    for frame in events_of(kind, content):
        encode(frame)
