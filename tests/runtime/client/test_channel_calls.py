"""Calls over the WebSocket: sent requests, received frames, and the place where a lost connection
continues."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from holdfast.errors import OutcomeUnknown, ProtocolError, ServerUnavailable, SessionBusy
from holdfast.runtime.client.channel_calls import (
    CREDIT,
    PIECE,
    AttachCall,
    CellCall,
    CommandCall,
    EventsCall,
    ProgramCall,
    ServerStopped,
    WatchCall,
)

ENDED: dict[str, Any] = {
    "command_id": "c1",
    "exit_code": 0,
    "start_offset": 10,
    "end_offset": 30,
    "timed_out": False,
    "shell_exited": False,
    "incomplete": False,
    "message": "",
    "cwd": "/",
    "signal": None,
    "duration": 0.5,
    "dropped": 0,
    "lost": 0,
    "recorded": False,
    "rows": 40,
    "cols": 120,
    "news": [],
    "waiting": None,
    "output": "",
    "output_base64": None,
}


def opened(call: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call.opening())
    call.opened()
    return found


def tell(call: Any, **told: Any) -> str | None:
    reply: str | None = call.receive(json.dumps({"channel": 1, **told}))
    return reply


def output(text: str, following: int) -> dict[str, Any]:
    return {"event": "output", "output": text, "output_base64": None, "next": following}


def test_a_command_is_followed_to_its_result() -> None:
    """The first message has the arguments that were given; output arrives in pieces, and in the result."""
    call = CommandCall("s", "exec", {"command": "make", "reason": None}, key="k", patience=5)
    shown: list[str] = []
    call.on_output = shown.append
    first = opened(call)
    assert first == {
        "open": 1,
        "call": "exec",
        "session": "s",
        "args": {"command": "make"},
        "credit": CREDIT,
        "key": "k",
        "patience": 5,
    }
    tell(call, event="started", command_id="c1")
    tell(call, **output("one", 13))
    tell(call, event="output", output="�", output_base64="/w==", next=14)
    assert not call.ended
    tell(call, result=ENDED)
    assert call.result
    assert call.ended
    assert (call.result.output, call.result.exit_code) == (b"one\xff", 0)
    assert shown == ["one", "�"]


def test_a_lost_command_is_joined_where_it_was() -> None:
    """By its id and shell, from the offset that was reached, without its key."""
    call = CommandCall("s", "exec", {"command": "make", "shell": "two", "timeout": 9}, key="k")
    opened(call)
    tell(call, event="started", command_id="c1")
    tell(call, **output("one", 13))
    again = opened(call)
    assert (again["call"], again["args"]) == ("join", {"command_id": "c1", "shell": "two", "start": 13})
    assert "key" not in again


def test_a_command_that_perhaps_began_is_not_sent_twice() -> None:
    """Its outcome is unknown when the connection is lost before it was reported as started."""
    call = CommandCall("s", "exec", {"command": "make"})
    opened(call)
    with pytest.raises(OutcomeUnknown, match="connection to the server was lost"):
        call.opening()


def test_a_keyed_call_is_repeated() -> None:
    """Under the same key the server runs it once."""
    call = CommandCall("s", "exec", {"command": "make"}, key="k")
    opened(call)
    assert opened(call)["call"] == "exec"


def test_an_unsent_call_is_repeated() -> None:
    """A connection that was not opened has not carried the call."""
    call = CommandCall("s", "exec", {"command": "make"})
    call.opening()
    assert json.loads(call.opening())["call"] == "exec"


def test_a_command_left_by_patience_continues_where_it_ended() -> None:
    """The end of the result is the offset that was read, not the server's."""
    call = CommandCall("s", "join", {"command_id": "c1"}, patience=0)
    call.patience.begin()
    opened(call)
    tell(call, **output("one", 13))
    tell(call, result={**ENDED, "exit_code": None, "end_offset": 99})
    assert call.result
    assert call.result.end_offset == 13


def test_a_server_that_is_stopped_is_not_the_end() -> None:
    """The call can be opened again, at the server's successor."""
    call = CommandCall("s", "join", {"command_id": "c1"}, patience=60)
    call.patience.begin()
    opened(call)
    with pytest.raises(ServerStopped):
        tell(call, result={**ENDED, "exit_code": None})
    assert not call.ended


def test_credit_is_given_back_for_read_data() -> None:
    """In messages of at most the first credit."""
    call = CommandCall("s", "join", {"command_id": "c1"})
    opened(call)
    replies = [tell(call, **output("x" * 50_000, 50_000 * (at + 1))) for at in range(30)]
    given = [json.loads(reply)["credit"] for reply in replies if reply]
    assert sum(given) >= 20 * 50_000
    assert all(credit <= CREDIT for credit in given)


def test_an_error_is_the_one_of_the_library() -> None:
    """With its class, message and hint."""
    call = CommandCall("s", "exec", {"command": "make"})
    opened(call)
    with pytest.raises(SessionBusy, match="cannot run") as raised:
        tell(call, error={"code": "session_busy", "message": "cannot run", "hint": "wait"})
    assert raised.value.hint == "wait"
    assert call.ended  # and its connection can be used again


def test_an_answer_that_makes_no_sense_leaves_the_call_open() -> None:
    """Its connection is not used for a second call, which would get the rest."""
    call = CommandCall("s", "exec", {"command": "make"})
    opened(call)
    with pytest.raises(ProtocolError):
        tell(call, event="output", output="x", output_base64="no base64", next=1)
    assert not call.ended


def test_a_lost_cell_is_joined_behind_its_last_event() -> None:
    """By its id and kernel, after the number of that event."""
    call = CellCall("s", "cell", {"code": "1", "kernel": "main"})
    opened(call)
    tell(call, event="started", cell_id="x")
    tell(call, event="stream", seq=4, name="stdout", text="hi")
    again = opened(call)
    assert (again["call"], again["args"]) == ("join_cell", {"cell_id": "x", "kernel": "main", "after": 4})


def test_a_lost_program_is_followed_from_both_offsets() -> None:
    """Of standard output and of standard error."""
    call = ProgramCall("s", "run", {"argv": ["x"]})
    opened(call)
    tell(call, event="started", id="p")
    tell(call, event="output", stream="stdout", output="ab", output_base64=None, next=2)
    tell(call, event="output", stream="stderr", output="c", output_base64=None, next=1)
    again = opened(call)
    assert (again["call"], again["args"]) == ("program", {"program": "p", "stdout": 2, "stderr": 1})


def test_lost_events_continue_behind_the_last_one() -> None:
    """The request has the number of the last event that arrived."""
    call = EventsCall("s", "events", {"after": 3})
    opened(call)
    tell(call, event="joined", kind="joined", seq=7, at=1.0, actor="a")
    assert [each.seq for each in call.found] == [7]
    assert opened(call)["args"] == {"after": 7}


FILE = {"name": "b", "kind": "file", "size": 1, "mode": "0644", "mtime_ns": 5, "uid": 0, "gid": 0}


def test_a_watch_has_changes_and_reports_the_removal_of_its_folder() -> None:
    """A change has the file as it is then; a removed one has none."""
    call = WatchCall("s", "watch", {"path": "."})
    opened(call)
    tell(call, event="watching", path="/a")
    tell(call, event="change", kind="created", path="/a/b", file={**FILE, "target": None, "version": "v"})
    tell(call, event="change", kind="removed", path="/a/b", file=None)
    assert call.path == "/a"
    assert [(each.kind, each.path, each.file and each.file.mode) for each in call.found] == [
        ("created", "/a/b", 0o644),
        ("removed", "/a/b", None),
    ]
    tell(call, result={"ended": True, "left": False})
    assert (call.ended, call.result) == (True, True)


def test_a_watch_that_perhaps_missed_something_ends_in_an_error() -> None:
    """Unless the caller has ended it."""
    call = WatchCall("s", "watch", {"path": "."})
    opened(call)
    with pytest.raises(ServerUnavailable, match="changes since then are not known"):
        call.opening()
    with pytest.raises(ServerUnavailable, match="changes since then are not known"):
        tell(call, result={"ended": False, "left": True})
    call = WatchCall("s", "watch", {"path": "."})
    opened(call)
    call.patience.end()
    tell(call, result={"ended": False, "left": True})
    assert call.result is False


@pytest.mark.parametrize("change", [{"kind": "x"}, {"path": None}, {"file": 5}, {"file": {"name": "b"}}])
def test_a_change_of_an_unexpected_form_is_an_error(change: dict[str, Any]) -> None:
    """Nothing that a server sends is taken without a check."""
    call = WatchCall("s", "watch", {"path": "."})
    opened(call)
    with pytest.raises(ProtocolError):
        tell(call, **{"event": "change", "kind": "created", "path": "/a", "file": None, **change})


HOW = {"shell": "main", "rows": 24, "cols": 80, "take": True}


def test_long_input_is_sent_in_pieces() -> None:
    """Of a fixed size; no input sends no message."""
    call = AttachCall("work", HOW, lambda _: None)
    messages = [json.loads(each) for each in call.typing(b"\xff" * (PIECE + 1))]
    assert [len(base64.b64decode(each["type_base64"])) for each in messages] == [PIECE, 1]
    assert call.typing(b"") == []


def test_output_is_shown_and_the_end_has_a_reason() -> None:
    """Text as it is, and other bytes in base64."""
    shown: list[bytes] = []
    call = AttachCall("work", HOW, shown.append)
    assert json.loads(call.opening())["args"] == HOW
    call.opened()
    call.receive(json.dumps({"channel": 1, "event": "output", "output": "é", "output_base64": None}))
    call.receive(json.dumps({"channel": 1, "event": "output", "output": "?", "output_base64": "/w=="}))
    call.receive(json.dumps({"channel": 1, "result": {"reason": "detached"}}))
    assert (b"".join(shown), call.result, call.ended) == ("é".encode() + b"\xff", "detached", True)


def test_over_another_connection_it_has_the_newest_size_and_takes_nothing_away() -> None:
    """The size that the terminal has by then; the right to type is not taken again."""
    call = AttachCall("work", HOW, lambda _: None)
    call.opening()
    call.opened()
    assert json.loads(call.resizing(40, 132)) == {"channel": 1, "resize": [40, 132]}
    assert json.loads(call.opening())["args"] == {**HOW, "rows": 40, "cols": 132, "take": False}


def test_a_server_that_stops_is_not_the_end() -> None:
    """Only a caller who has left ends an attachment that the server reports as left."""
    call = AttachCall("work", HOW, lambda _: None)
    with pytest.raises(ServerStopped):
        call.receive(json.dumps({"channel": 1, "result": {"reason": "left"}}))
    call.patience.end()
    call.receive(json.dumps({"channel": 1, "result": {"reason": "left"}}))
    assert call.result == "left"
