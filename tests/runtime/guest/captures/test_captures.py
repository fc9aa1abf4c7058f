"""Captures that programs request: the decisions, and a real supervisor with real programs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Connection, Guest, Refused

from holdfast.runtime.guest import holdfast_session
from holdfast.runtime.guest.captures.capture_queue import LONGEST_ANSWER, answer_line, parse
from holdfast.runtime.guest.captures.captures import MOST, CaptureRequests, Request, failed
from holdfast.runtime.guest.wire.connection import RequestRefused

MODULES = str(Path(holdfast_session.__file__).parent)


class Told:
    """Captures whose answers are kept."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, dict[str, Any]]] = []
        self.captures = CaptureRequests(lambda asker, answer: self.answers.append((asker, dict(answer))))

    def ask(self, *askers: str, generation: int = 0) -> None:
        for asker in askers:
            self.captures.ask(Request(asker, generation), 0, "before")

    def kinds(self) -> list[tuple[str, str]]:
        return [(asker, answer.get("code") or answer["kind"]) for asker, answer in self.answers]


@pytest.fixture
def told() -> Told:
    return Told()


def number(told: Told) -> int:
    found = told.captures.next()
    assert found is not None
    return found[0]


def test_requests_without_a_server_are_refused(told: Told) -> None:
    """A new request is refused immediately; so are waiting ones when the server has left."""
    told.ask("a")
    told.captures.serve(0)
    told.ask("b", "c")
    number(told)
    told.captures.left(expected=False)
    assert told.kinds() == [("a", "unavailable"), ("b", "unavailable"), ("c", "unavailable")]
    assert not told.captures.open


def test_one_request_is_out_at_a_time(told: Told) -> None:
    """The next goes out after the previous answer; a second answer is ignored."""
    told.captures.serve(0)
    told.ask("a", "b")
    first = number(told)
    assert told.captures.next() is None
    told.captures.answered(first, failed("x", "no"))
    told.captures.answered(first, failed("y", "no"))
    second = number(told)
    assert second != first
    told.captures.answered(first, failed("y", "no"))
    assert told.kinds() == [("a", "x")]
    with pytest.raises(RequestRefused):
        told.captures.serve(0)


def test_a_returning_server_keeps_its_open_request(told: Told) -> None:
    """After a capture the server still has the request; another server gets it again, before others."""
    told.captures.serve(0)
    told.ask("a", "b")
    first = number(told)
    told.captures.left(expected=True)
    told.ask("c")
    told.captures.serve(first)
    assert told.captures.next() is None
    told.captures.left(expected=True)
    told.captures.serve(0)
    found = told.captures.next()
    assert found is not None
    assert (found[0] != first, found[1].asker) == (True, "a")
    assert told.answers == []


def test_all_requests_come_out_in_a_copy(told: Told) -> None:
    """The one the snapshot was taken for, one that waited by chance, and one that is read only in the
    copy.
    """
    told.captures.serve(0)
    told.ask("a", "b")
    number(told)
    told.captures.left(expected=True)
    told.captures.restored("s")
    told.captures.ask(Request("c", 0), 1, "s")
    told.captures.ask(Request("d", 1), 1, "s")
    assert [(asker, answer.get("own")) for asker, answer in told.answers] == [
        ("a", True),
        ("b", False),
        ("c", False),
        ("d", None),
    ]
    assert {answer["snapshot"] for _, answer in told.answers[:3]} == {"s"}
    assert told.kinds()[-1] == ("d", "unavailable")


def test_the_number_of_requests_is_limited(told: Told) -> None:
    """A request over the limit is refused."""
    told.captures.serve(0)
    told.ask(*map(str, range(MOST + 1)))
    assert told.kinds() == [(str(MOST), "limit")]


def test_input_from_programs_is_checked() -> None:
    """A request is a small JSON object; an answer is short enough to be written atomically."""
    assert parse("a", b'{"reason": "x", "generation": 2}') == Request("a", 2, {"reason": "x"})
    for bad in (b"", b"[]", b"[" * 9000, b'{"generation": "1"}', b'{"a": "' + b"x" * 70_000 + b'"}'):
        assert parse("a", bad) is None
    for text in ("x" * 9000, "\u2028" * 9000):
        line = answer_line({"kind": "failed", "code": "c", "message": text, "hint": text})
        assert len(line) <= LONGEST_ANSWER
        assert json.loads(line)["kind"] == "failed"


# With a supervisor.

PROGRAM = f"""
import sys; sys.path.insert(0, {MODULES!r})
import holdfast_session as hs
try:
    print(tuple(hs.capture(reason="why", failure={{"reason": "failed", "where": "x.py:1"}}, timeout=60)))
except hs.CaptureFailed as error:
    print(type(error).__name__, error.code, error)
"""


@contextlib.contextmanager
def asks(guest: Guest, name: str) -> Iterator[Connection]:
    (guest.folder / "program.py").write_text(PROGRAM)
    with guest.begin(f"{sys.executable} {guest.folder}/program.py", id=name) as running:
        yield running


def said(guest: Guest, name: str) -> str:
    with guest.call("wait", id=name) as running:
        output = b"".join(frame.payload for frame in running.frames() if frame.event == "output")
    return output.decode().strip()


def serve(guest: Guest, holding: int = 0) -> Connection:
    serving = guest.call("captures", holding=holding)
    serving.until("serving")
    return serving


def test_a_program_continues_as_parent_and_as_copy(guest: Guest) -> None:
    """It gets the snapshot and its reference; in a copy, the snapshot it is of; it leaves nothing behind."""
    serving, outcomes = serve(guest), []
    for generation, event in enumerate(("resumed", "restored")):
        with asks(guest, event):
            request = serving.until("request")
            told = json.loads(request.payload)
            assert (told["reason"], told["failure"]["where"]) == ("why", "x.py:1")
            with pytest.raises(Refused):  # only one serves
                guest.ask("captures")
            guest.wake(token=guest.prepare()["token"], event=event, snapshot="5a5a", generation=generation)
            assert serving.next() is None
            if event == "resumed":
                serving = serve(guest, holding=request.head["number"])
                done = {"number": request.head["number"], "snapshot": "5a5a", "reference": "reg/x:y"}
                serving.send("captured", **done)
                serving.until("answered")
        outcomes.append(said(guest, event))
    assert outcomes == ["('resumed', '5a5a', 'reg/x:y', True)", "('restored', '5a5a', '', True)"]
    assert list((guest.folder / "state/identity/asking").iterdir()) == []


def test_reasons_reach_the_program(guest: Guest) -> None:
    """There is no server; the host cannot capture; the server hangs up, or ends while a request waits."""
    with asks(guest, "alone"):
        assert said(guest, "alone").startswith(
            "CaptureUnavailable unavailable cannot capture the session: no process"
        )
    serving = serve(guest)
    with asks(guest, "refused"):
        found = serving.until("request").head["number"]
        serving.send("failed", number=found, code="live_unsupported", message="cannot: a GPU", hint="do it")
        serving.until("answered")
        assert said(guest, "refused") == "CaptureFailed live_unsupported cannot: a GPU (do it)"
    with asks(guest, "left"):
        serving.until("request")
        serving.close()
        assert said(guest, "left").startswith("CaptureUnavailable unavailable")
    serving = serve(guest)
    with asks(guest, "ended"):
        serving.until("request")
        serving.send("end")
        assert said(guest, "ended").startswith("CaptureUnavailable unavailable")
    assert serving.until("closed").end


def test_an_ended_program_is_not_served(guest: Guest) -> None:
    """Its request is dropped when its turn comes, and its files are removed."""
    serving = serve(guest)
    with asks(guest, "first"):
        first = serving.until("request").head["number"]
        job = f"{sys.executable} {guest.folder}/program.py"
        guest.ask("job_start", job.encode(), id="second")
        folder = guest.folder / "state/identity/asking"
        while len(list(folder.glob("*.json"))) < 2:
            pass
        guest.ask("job_signal", id="second", signal="KILL")
        guest.ask("job_wait", id="second")
        serving.send("failed", number=first, code="x", message="cannot: no")
        assert said(guest, "first") == "CaptureFailed x cannot: no"
    with asks(guest, "third"):
        third = serving.until("request").head["number"]
        assert third == first + 2
        assert len(list(folder.iterdir())) == 2
        serving.send("end")
        assert "Unavailable" in said(guest, "third")
