from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, KernelDied, ProtocolError
from holdfast.runtime.guest_rpc import kernel_calls
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.kernel_calls import KernelCall
from holdfast.runtime.guest_rpc.reconnect import Reconnection


def _call(guest: Any, code: Any = "1+1", **callbacks: Any) -> Any:
    given = {"on_event": None, "on_input": None} | callbacks
    client = GuestClient(guest.folder)
    return KernelCall(client, Reconnection(lambda: None), code, kernel="main", timeout=None, **given).run()


def _finished(peer: Any, status: Any = "ok") -> None:
    peer.send(event="finished", id="x", status=status, execution_count=4, end=True)


def test_streams_and_results_are_collected_in_order(guest: Any) -> None:
    """Output, displays and the value of a cell arrive as events and in the result."""

    def answer(peer: Any, _request: Any) -> None:
        peer.send(event="started", id="x", epoch=1)
        peer.send(b"out", event="stream", name="stdout", seq=1)
        peer.send(b"err", event="stream", name="stderr", seq=2)
        peer.send(
            json.dumps({"data": {"text/plain": "2"}, "metadata": {}, "execution_count": 4}).encode(),
            event="execute_result",
            seq=3,
        )
        peer.send(event="from_the_future", seq=4)
        _finished(peer)

    guest(answer)
    events: list[Any] = []
    result = _call(guest, on_event=events.append)

    assert (
        result.stdout,
        result.stderr,
        result.text,
        result.status,
        result.execution_count,
    ) == ("out", "err", "2", "ok", 4)
    assert [event.kind for event in events] == ["stream", "stream", "execute_result"]


def test_displays_have_a_total(guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many large displays the last are in the result, the bytes of the others are counted."""
    monkeypatch.setattr(kernel_calls, "KEEP_DISPLAYS", 350_000)
    payload = json.dumps({"data": {"text/plain": "x" * 100_000}, "metadata": {}}).encode()

    def answer(peer: Any, _request: Any) -> None:
        peer.send(event="started", id="x", epoch=1)
        for seq in range(1, 21):
            peer.send(payload, event="display_data", seq=seq)
        _finished(peer)

    guest(answer)
    events: list[Any] = []
    result = _call(guest, on_event=events.append)

    assert [event.seq for event in result.outputs] == [18, 19, 20]
    assert result.dropped == 17 * len(payload)
    assert len(events) == 20


def test_a_lost_connection_continues_after_the_last_event(guest: Any) -> None:
    """After a cut the same cell is joined, and no event comes twice."""

    def first(peer: Any, _request: Any) -> None:
        peer.send(b"a", event="stream", name="stdout", seq=1)

    def second(peer: Any, request: Any) -> None:
        assert request.head["after_seq"] == 1
        peer.send(b"a", event="stream", name="stdout", seq=1)
        peer.send(b"b", event="stream", name="stdout", seq=2)
        _finished(peer)

    guest(first, second)

    assert _call(guest).stdout == "ab"


def test_lost_entries_are_reported_once(guest: Any) -> None:
    """Dropped events are counted by size, also when the connection is lost after them."""

    def first(peer: Any, _request: Any) -> None:
        peer.send(event="gap", seq=1, count=3, size=300)

    def second(peer: Any, request: Any) -> None:
        assert request.head["after_seq"] == 3
        peer.send(b"b", event="stream", name="stdout", seq=4)
        _finished(peer)

    guest(first, second)
    result = _call(guest)

    assert (result.stdout, result.lost) == ("b", 300)


def test_an_exception_is_a_result(guest: Any) -> None:
    """Code that raises yields the exception with its traceback."""

    def answer(peer: Any, _request: Any) -> None:
        body = {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["a", "b"]}
        peer.send(json.dumps(body).encode(), event="error_output", seq=1)
        _finished(peer, "error")

    guest(answer)
    result = _call(guest)

    assert not result.ok
    assert (result.error.ename, result.error.traceback) == ("ZeroDivisionError", ("a", "b"))


def test_input_is_asked_for_and_sent(guest: Any) -> None:
    """A question of the cell is answered over another connection."""
    asked = []

    def on_input(prompt: str, password: bool) -> str:
        asked.append((prompt, password))
        return "Ada"

    # The script serves one connection after the other, so each ends after its part.
    guest(
        lambda peer, _: peer.send(event="input_request", prompt="name? ", password=False, seq=1),
        lambda peer, _: peer.send(event="ok", end=True),
        lambda peer, _: _finished(peer),
    )

    assert _call(guest, on_input=on_input).ok
    assert asked == [("name? ", False)]
    assert guest.requests[1].payload == b"Ada"


def test_an_unanswered_question_ends_the_cell(guest: Any) -> None:
    """If the caller has no more answers, the cell is interrupted instead of hanging; the error says why."""

    def asks(peer: Any, _request: Any) -> None:
        peer.send(event="input_request", prompt="? ", password=False, seq=1)

    guest(
        asks, lambda peer, _: peer.send(event="ok", end=True), lambda peer, _: _finished(peer, "interrupted")
    )

    def nothing_more(_prompt: str, _password: bool) -> str:
        raise EOFError

    with pytest.raises(InvalidArgument, match="asked for input"):
        _call(guest, on_input=nothing_more)

    assert guest.requests[1].op == "kernel_interrupt"


def test_without_anyone_to_ask_the_question_is_the_result(guest: Any) -> None:
    """The call returns, the cell continues, and its question is reported."""

    def asks(peer: Any, _request: Any) -> None:
        peer.send(b"hello", event="stream", name="stdout", seq=1)
        peer.send(event="input_request", prompt="code: ", password=True, seq=2)

    guest(asks)
    found = _call(guest)

    assert (found.status, found.ok, found.stdout, found.seq) == ("waiting", False, "hello", 2)
    assert found.waiting is not None
    assert (found.waiting.detail, found.waiting.prompt) == ("password", "code: ")
    assert found.cell_id == guest.requests[0].head["id"]


def test_a_dead_kernel_is_an_error(guest: Any) -> None:
    """The end of the kernel's process is reported immediately, also where the session cannot name its
    cause."""
    guest(lambda peer, _: _finished(peer, "died"), lambda peer, _: peer.send(event="entry", end=True))

    with pytest.raises(KernelDied, match="its kernel died"):
        _call(guest)
    assert guest.requests[1].head["kinds"] == ["kernel_died"]


@pytest.mark.parametrize("payload", [b"[]", b"{", b'{"data": 3}', b"\xff"])
def test_a_hostile_display_is_refused(guest: Any, payload: Any) -> None:
    """A payload of an unexpected form ends the call."""
    guest(lambda peer, _: peer.send(payload, event="display_data", seq=1))

    with pytest.raises(ProtocolError):
        _call(guest)
