"""Events on their way to a client: their form, their order, and the effect of a slow or absent reader."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, SessionBusy
from holdfast.runtime.client.channel_calls import CommandCall, EventsCall
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.serve import event_format
from holdfast.runtime.serve.call_threads import CallThreads, TooManyCalls
from holdfast.runtime.serve.calls.call_table import CALLS
from holdfast.runtime.serve.calls.followed_calls import EVENT_BYTES, _CommandEvents
from holdfast.runtime.serve.channels.channel_connection import ChannelConnection, CreditGate
from holdfast.runtime.serve.channels.channel_messages import (
    CreditMessage,
    OpenMessage,
    ResizeMessage,
    TypeBytesMessage,
    parse,
    typed,
)
from holdfast.runtime.serve.event_streams import EventBridge, StreamedCall


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", event_format.JSON),
        ("*/*", event_format.JSON),
        ("application/json", event_format.JSON),
        ("text/event-stream", event_format.SSE),
        ("Text/Event-Stream; charset=utf-8", event_format.SSE),
        ("application/x-ndjson, */*;q=0.1", event_format.NDJSON),
        ("text/html, text/event-stream", event_format.SSE),
    ],
)
def test_the_form_follows_the_clients_accept_header(accept: str, form: str) -> None:
    """A stream of events is sent only to clients that ask for one."""
    assert event_format.wanted(accept) == form


def test_a_server_sent_event_is_one_whatever_it_carries() -> None:
    """A line end or a control character in the output must not begin another field."""
    event = {"event": "output", "output": "a\nevent: forged\n\ndata: x\r\u2028\x9b", "next": 7}
    sent = event_format.written(event, event_format.SSE).decode()
    assert sent.startswith("id: 7\nevent: output\ndata: {")
    assert sent.endswith("}\n\n")
    assert sent.count("\n") == 4
    assert "\r" not in sent
    assert "\u2028" not in sent
    assert json.loads(sent.splitlines()[2].removeprefix("data: ")) == event
    line = event_format.written(event, event_format.NDJSON)
    assert line.count(b"\n") == 1
    assert json.loads(line) == event


def test_binary_output_is_in_base64_as_well() -> None:
    """The text has replacement characters in their place."""
    assert event_format.text("output", "é".encode()) == {"output": "é", "output_base64": None}
    assert event_format.text("output", b"\xff!") == {"output": "�!", "output_base64": "/yE="}


@pytest.mark.parametrize("text", ["é", "€", "😀", "a", ""])
def test_a_character_is_not_cut(text: str) -> None:
    """A character that has not arrived whole is held back; a byte that cannot begin one is not."""
    data = b"x" + text.encode()
    for end in range(1, len(data)):
        assert event_format.unfinished(data[:end]) == end - 1
    assert event_format.unfinished(data) == 0
    assert event_format.unfinished(b"\xff") == 0


def test_a_slow_reader_slows_the_writer_down_and_an_absent_one_lets_it_pass() -> None:
    """The writer waits as long as a reader is there."""

    async def run() -> None:
        bridge = EventBridge[int](room=100)
        put: list[int] = []

        def write() -> None:
            for number in range(50):
                bridge.put(number, 50)
                put.append(number)
            bridge.end()

        thread = threading.Thread(target=write)
        thread.start()
        await asyncio.sleep(0.3)
        assert len(put) == 2
        found = []
        async for item in bridge.items():
            found.append(item)
            if item == 9:
                break
        assert found == list(range(10))
        bridge.leave()
        await asyncio.to_thread(thread.join, 10)
        assert len(put) == 50

    asyncio.run(run())


def test_all_items_arrive_in_order() -> None:
    """A thousand of them, through room for three."""

    async def run() -> list[int]:
        bridge = EventBridge[int](room=3)

        def write() -> None:
            for number in range(1000):
                bridge.put(number, 1)
            bridge.end()

        threading.Thread(target=write).start()
        return [item async for item in bridge.items()]

    assert asyncio.run(run()) == list(range(1000))


def test_a_channel_without_credit_waits_until_it_has_some_or_is_closed() -> None:
    """Once it is closed, nothing passes."""
    gate = CreditGate(10)
    passed: list[bool] = []

    def work() -> None:
        passed.extend(gate.pass_on(6) for _ in range(5))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    gate.grant(6)
    thread.join(0.2)
    assert thread.is_alive()
    gate.leave()
    thread.join(60)
    assert not thread.is_alive()
    assert passed == [True, True, True, False, False]


def test_calls_beyond_the_limit_are_refused_and_their_errors_are_raised() -> None:
    """A cancelled call counts as long as its thread runs."""

    async def run() -> None:
        threads, go = CallThreads(2), threading.Event()
        waiting = [asyncio.create_task(threads.run(lambda: go.wait(60))) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert threads.running == 2
        with pytest.raises(TooManyCalls):
            await threads.run(lambda: None)
        waiting[0].cancel()
        await asyncio.sleep(0.05)
        assert threads.running == 2, "a thread that was left behind counts as long as it runs"
        go.set()
        assert await waiting[1]

        def fails() -> None:
            raise SessionBusy("cannot")

        with pytest.raises(SessionBusy):
            await threads.run(fails)
        await asyncio.sleep(0.05)
        assert threads.running == 0

    asyncio.run(run())


def test_requests_beyond_the_rate_are_refused_until_it_has_caught_up() -> None:
    """The refusal says when to try again; a rate of 0 refuses no one."""
    now = 0.0
    rate = RequestRate(10, 3, lambda: now)
    assert [rate.refused() for _ in range(3)] == [None] * 3
    assert rate.refused() == pytest.approx(0.1)
    now = 0.1
    assert rate.refused() is None
    assert rate.refused() is not None
    now = 100.0
    assert [rate.refused() is None for _ in range(4)] == [True, True, True, False]
    assert all(RequestRate(0, 1, lambda: now).refused() is None for _ in range(10))


def test_messages_are_read_exactly() -> None:
    """Each by its own form, with its defaults."""
    opened = parse('{"open": 3, "call": "exec", "session": "work", "args": {"command": "ls"}}')
    assert isinstance(opened, OpenMessage)
    assert (opened.open, opened.args, opened.credit) == (3, {"command": "ls"}, 1 << 20)
    assert parse('{"channel": 3, "credit": 5}') == CreditMessage(channel=3, credit=5)
    assert parse('{"channel": 3, "resize": [24, 80]}') == ResizeMessage(channel=3, resize=[24, 80])
    pressed = parse('{"channel": 3, "type_base64": "A/8="}')
    assert isinstance(pressed, TypeBytesMessage)
    assert typed(pressed) == b"\x03\xff"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "3",
        "{}",
        '{"channel": 1}',
        '{"open": 0, "call": "exec", "session": "work"}',
        '{"open": "1", "call": "exec", "session": "work"}',
        '{"open": 1, "call": "exec", "session": "../x"}',
        '{"open": 1, "call": "exec", "session": "work", "credit": -1}',
        '{"open": 1, "call": "exec", "session": "work", "credit": 99999999}',
        '{"open": 1, "call": "exec", "session": "work", "more": 1}',
        '{"channel": 1, "credit": 0}',
        '{"channel": 1, "resize": [0, 80]}',
        '{"channel": 1, "resize": [24, 80, 1]}',
        '{"channel": 1, "type": 5}',
        '{"close": 1.5}',
        '{"open": 1' + ', "args": ' + "[" * 100_000,
    ],
)
def test_malformed_messages_are_refused(text: str) -> None:
    """The connection gets the reason."""
    with pytest.raises(InvalidArgument, match="cannot read the message"):
        parse(text)


def test_invalid_base64_is_not_typed() -> None:
    """The text is refused."""
    message: Any = parse('{"channel": 3, "type_base64": "%%%"}')
    with pytest.raises(InvalidArgument, match="cannot type"):
        typed(message)


@pytest.mark.parametrize("before", [0, 1])
def test_a_call_that_fails_without_an_answer_does_not_look_as_if_it_had_ended(before: int) -> None:
    """Its error ends the stream, also after events."""

    def work(_session: Any, _patience: Any, emit: Any) -> dict[str, Any]:
        for _ in range(before):
            emit({"event": "started"}, 1)
        raise TypeError("a mistake of the server")

    async def late(body: Any) -> Any:
        try:
            return await CallThreads(1).run(body)
        finally:
            await asyncio.sleep(0.05)  # the end of the events is seen before the error is

    async def read() -> None:
        every = SimpleNamespace(patience=lambda _seconds: None, done=lambda _patience: None)
        caller: Any = SimpleNamespace(all=every, waits=late, session=lambda _ref: None)
        call = StreamedCall(caller, "work", None, work)
        await call.begin()
        async for event in call.events(10):
            assert event == {"event": "started"}

    with pytest.raises(TypeError, match="a mistake"):
        asyncio.run(read())


def test_events_of_a_lull_come_with_the_next_or_when_it_is_over() -> None:
    """In order, and each without any other that would wake the reader."""

    async def read() -> None:
        bridge: EventBridge[str] = EventBridge()
        items = bridge.items()
        lull = bridge.lull(60)
        coming = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)  # it waits now
        await asyncio.to_thread(bridge.put, "first", 1, lull)
        await asyncio.sleep(0.05)
        assert not coming.done()
        bridge.put_now("second", 1)
        assert [await coming, await anext(items)] == ["first", "second"]
        coming = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await asyncio.to_thread(bridge.put, "third", 1, lull)
        bridge.end_lull(lull)
        assert await asyncio.wait_for(coming, 60) == "third"
        lull = bridge.lull(0.01)
        coming = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await asyncio.to_thread(bridge.put, "fourth", 1, lull)
        assert await asyncio.wait_for(coming, 60) == "fourth"
        while not lull.is_over:
            await asyncio.sleep(0.01)
        coming = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await asyncio.to_thread(bridge.put, "fifth", 1, lull)
        assert await asyncio.wait_for(coming, 60) == "fifth"

    asyncio.run(read())


def test_a_full_bridge_is_emptied_after_a_lull() -> None:
    """A thread that waits for room does not wait for a reader that it has not woken."""

    async def read() -> None:
        bridge: EventBridge[int] = EventBridge(room=2)
        lull = bridge.lull(0.01)

        def put() -> None:
            for number in range(6):
                bridge.put(number, 1, lull)
            bridge.end()

        putting = asyncio.create_task(asyncio.to_thread(put))
        assert [item async for item in bridge.items()] == list(range(6))
        await putting

    asyncio.run(asyncio.wait_for(read(), 60))


def test_work_that_is_refused_is_not_reported() -> None:
    """Its caller is notified immediately; the end of the other is reported in the loop."""

    async def run() -> None:
        threads, go, told = CallThreads(1), threading.Event(), asyncio.Queue[tuple[int | None, object]]()

        def work() -> int:
            go.wait(60)
            return 7

        threads.begin(work, lambda result, error: told.put_nowait((result, error)))
        with pytest.raises(TooManyCalls):
            threads.begin(work, lambda result, error: told.put_nowait((result, error)))
        go.set()
        assert await asyncio.wait_for(told.get(), 60) == (7, None)
        assert (threads.running, told.empty()) == (0, True)

    asyncio.run(run())


def _many_events(_session: Any, _patience: Any, emit: Any) -> dict[str, Any]:
    for number in range(1, 3001):
        event = Event(number, datetime.now(UTC), "shell_ended")
        emit({"event": event.kind, **event.as_dict()}, EVENT_BYTES)
    return {}


def _text_of_three_bytes_a_letter(_session: Any, _patience: Any, emit: Any) -> dict[str, Any]:
    events = _CommandEvents(emit)
    callbacks = events.callbacks(wait=False)
    for number in range(1, 61):
        callbacks["on_bytes"]("語".encode() * 20_000)
        callbacks["on_offset"](number * 60_000)
    return events.ended(ExecResult(0, b"", 0, 3_600_000, command_id="1"))


@pytest.mark.parametrize(
    ("call", "served"),
    [
        (EventsCall("work", "events", {}), _many_events),
        (CommandCall("work", "join", {"command_id": "1"}), _text_of_three_bytes_a_letter),
    ],
    ids=["events", "output"],
)
def test_a_client_that_reads_gives_credit_to_the_end(
    monkeypatch: pytest.MonkeyPatch, call: Any, served: Any
) -> None:
    """However little an event carries, and whatever its letters take: both ends count alike."""
    form, _ = CALLS[call.call]
    monkeypatch.setitem(CALLS, call.call, (form, lambda _asked, _key: served))

    async def read() -> None:
        every = SimpleNamespace(
            patience=lambda _seconds: Patience(), done=lambda _patience: None, waiting=CallThreads(1)
        )
        told: Any = SimpleNamespace(
            all=every, access_key=None, session=lambda _ref: None, audit=lambda *_of: None
        )
        connection = ChannelConnection(told)

        async def send(message: str) -> None:
            if (granted := call.receive(message)) is not None:
                await connection.hear(granted)
            if call.ended:
                connection.leave()

        await connection.hear(call.opening())
        async with asyncio.timeout(60):
            await connection.send_all(send)

    asyncio.run(read())
    assert call.ended
