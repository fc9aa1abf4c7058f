"""Events as they come from a session, and as they are reported."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import GuestDisconnected, InvalidArgument, ProtocolError, SessionDead
from holdfast.runtime.api.events import EventPlace, read
from holdfast.runtime.cli.observe_verbs import moment
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc.event import Event, parse
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.store.journal_entries import EntryRow
from holdfast.runtime.store.row_details import SessionDetails

DEATH = {
    "pid": 42,
    "command": "python3 -m http.server",
    "origin": {"kind": "command", "id": "a1", "command": "make serve"},
    "signal": 9,
    "cause": "oom",
    "ports": [8000],
}


def entry(seq: int, kind: str = "oom", **data: Any) -> bytes:
    return json.dumps({"seq": seq, "at": 1.5, "kind": kind, **data}).encode()


class Line:
    """A connection to a session whose supervisor is the fake one."""

    def __init__(self, guest: Any, check: Callable[[], None]) -> None:
        self._guest = guest
        self._check = check
        self.row = SimpleNamespace(details=SessionDetails(), container_id=None, options={})

    def client(self) -> GuestClient:
        return GuestClient(self._guest.folder)

    def reconnection(self) -> Reconnection:
        return Reconnection(self._check)


def controller(container: Any, *refused: EntryRow, **row: Any) -> Any:
    """Return a controller that knows one session, its refusals, and the engine's report on its container."""
    found = SimpleNamespace(id="s", name="work", container_id="c", **row)
    entries = SimpleNamespace(stream=lambda _ids, _wanted: iter(refused))
    return SimpleNamespace(
        home=SimpleNamespace(digest="d", below=lambda name: f"/nonexistent/{name}"),
        store=SimpleNamespace(find_session=lambda _id, removed: found, entries=entries),
        engine=SimpleNamespace(inspect=lambda _: container),
    )


def sends_and_goes(guest: Any, payload: bytes) -> Callable[[Any, Frame], None]:
    """Answer once, then listen no longer."""

    def answer(peer: Any, _: Frame) -> None:
        peer.send(payload, event="entry")
        (guest.folder / "guest.sock").unlink()

    return answer


def sends(*payloads: bytes, end: bool = False) -> Callable[[Any, Frame], None]:
    def answer(peer: Any, _: Frame) -> None:
        for payload in payloads:
            peer.send(payload, event="entry")
        if end:
            peer.send(event="end_of_journal", end=True)

    return answer


def test_following_continues_after_the_last_event(guest: Any) -> None:
    """A capture closes the connection; nothing is reported twice or left out."""
    guest(sends(entry(3), entry(4)), sends(entry(5), end=True))
    line: Any = Line(guest, lambda: None)
    found = list(read(controller(None), line, "s", place=EventPlace(2), follow=True, kinds=["oom"]))
    assert [event.seq for event in found] == [3, 4, 5]
    assert [request.head["after_seq"] for request in guest.requests] == [2, 4]
    assert guest.requests[0].head["kinds"] == ["oom"]


def test_following_continues_after_a_rewind(guest: Any) -> None:
    """Its numbers begin again there: later events have smaller ones, and are reported."""

    def goes_back(peer: Any, frame: Frame) -> None:
        sends(entry(9))(peer, frame)
        line.row.details["rewound"] = {"at": time.time() + 1, "position": 4}

    guest(goes_back, sends(entry(5), end=True))
    line: Any = Line(guest, lambda: None)
    found = list(read(controller(None), line, "s", place=EventPlace(2), follow=True, kinds=["oom"]))

    assert [event.seq for event in found] == [9, 5]
    assert [request.head["after_seq"] for request in guest.requests] == [2, 4]


def test_only_the_host_reports_refusals_and_ends(guest: Any) -> None:
    """In its place among the session's events; the session's own reports of refusals and of its end are
    ignored, whether it was asked or not.
    """

    def refused(number: int, seq: int) -> EntryRow:
        body = {"address": "10.1.2.3", "protocol": "tcp", "port": 80 + number}
        return EntryRow(number, "s", seq, True, 2.0, "refused", "system", body)

    forged = entry(4, "refused", address="8.8.8.8", protocol="tcp", port=443)
    ending = entry(4, "life_ending", seconds=5, then="remove")
    guest(sends(entry(3), forged, ending, entry(5), end=True))
    line: Any = Line(guest, lambda: None)
    found = list(
        read(
            controller(None, refused(1, 3), refused(2, 5)),
            line,
            "s",
            place=EventPlace(0),
            follow=False,
            kinds=None,
        )
    )

    assert [(event.seq, event.kind, event.data.get("port")) for event in found] == [
        (3, "oom", None),
        (3, "refused", 81),
        (5, "oom", None),
        (5, "refused", 82),
    ]
    assert found[1].text == "tcp to 10.1.2.3 port 81 was refused: the session's network rules forbid it"
    assert "refused" not in guest.requests[0].head["kinds"]


@pytest.mark.parametrize(
    ("state", "row", "cause"),
    [
        (SimpleNamespace(oom_killed=True, exit_code=137), "dead", "oom"),
        (SimpleNamespace(oom_killed=False, exit_code=137), "dead", "exited"),
        (None, "dead", "dead"),
        (None, "suspended", "suspended"),
        (None, "removed", "removed"),
    ],
)
def test_following_ends_with_the_reason(guest: Any, state: Any, row: str, cause: str) -> None:
    """The last event reports the session's end."""

    def gone() -> None:
        raise SessionDead("cannot use session work: its container is gone")

    guest(sends_and_goes(guest, entry(3)))
    line: Any = Line(guest, gone)
    *_, last = read(controller(state, state=row), line, "s", place=EventPlace(0), follow=True, kinds=None)
    assert (last.kind, last.seq, last.data["cause"]) == ("session_ended", 3, cause)
    assert "its container is gone" in last.text


def test_without_following_a_lost_session_is_an_error(guest: Any) -> None:
    """Half a list would look like a whole one."""

    def gone() -> None:
        raise SessionDead("cannot use session work: its container is gone")

    guest(sends_and_goes(guest, entry(3)))
    line: Any = Line(guest, gone)
    found = read(controller(None, state="dead"), line, "s", place=EventPlace(0), follow=False, kinds=None)
    assert next(found).seq == 3
    with pytest.raises((SessionDead, GuestDisconnected)):
        next(found)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (
            "process_exited",
            DEATH,
            "python3 -m http.server (pid 42, port 8000) was killed: out of memory (SIGKILL); "
            "command a1 had left it running (make serve)",
        ),
        (
            "job_ended",
            {"id": "t", "name": "", "command": "make", "signal": 15, "cause": "signal", "killed_by": "agent"},
            "job t was ended by SIGTERM, sent by agent: make",
        ),
        (
            "job_ended",
            {"id": "t", "name": "b", "command": "make", "exit_code": 2},
            "job b ended with 2: make",
        ),
        (
            "kernel_died",
            {"kernel": "main", "pid": 7, "cause": "restarted", "signal": 9},
            "kernel main (pid 7) was restarted; its variables are gone",
        ),
        (
            "shell_ended",
            {"shell": "main", "pid": 7, "cause": "unknown"},
            "shell main (pid 7) ended for an unknown reason; a new one follows",
        ),
        ("unheard_of", {"a": 1, "b": {"c": 2}, "d": None}, "a=1"),
        ("process_exited", {"command": "\x1b[2Jevil\n"}, None),
        ("process_exited", {"origin": 3, "ports": "x", "signal": "y"}, None),
    ],
)
def test_an_event_is_a_sentence(kind: str, data: dict[str, Any], text: str | None) -> None:
    """On one line, fit to be shown, whatever the session sent."""
    told = Event(1, datetime.now(UTC), kind, data).text
    assert told.isprintable()
    if text is not None:
        assert told == text


@pytest.mark.parametrize("wrong", [{"seq": "1"}, {"at": "now"}, {"kind": 3}, {"kind": None}])
def test_an_entry_of_an_unexpected_form_is_ignored(wrong: dict[str, Any]) -> None:
    """The session is not trusted."""
    with pytest.raises(ProtocolError):
        parse({"seq": 1, "at": 1.0, "kind": "oom", **wrong})


def test_an_event_for_programs_is_the_entry() -> None:
    """The content of the journal, and nothing made up."""
    stored = {"seq": 9, "at": 12.25, "kind": "process_exited", **DEATH}
    assert parse(stored).as_dict() == stored


def test_the_beginning_is_a_number_a_duration_or_a_time() -> None:
    """In each form."""
    now = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    assert moment(None, now) == (0, None)
    assert moment("42", now) == (42, None)
    assert moment("10m", now) == (0, datetime(2026, 1, 31, 11, 50, tzinfo=UTC))
    assert moment("999999999d", now) == (0, None), "longer ago than the calendar goes"
    assert moment("2026-01-31T11:00+00:00", now) == (0, datetime(2026, 1, 31, 11, 0, tzinfo=UTC))
    with pytest.raises(InvalidArgument, match="neither the number of an event nor a time"):
        moment("yesterday", now)
