"""A supervisor can answer anything: the host understands the answer, or refuses it in one line.

The answers are a real session's. Each value in them is replaced by others, one after the other, and passed
to its reader on the host.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.runtime.api import job_info
from holdfast.runtime.api.pulse_calls import lineage
from holdfast.runtime.api.session import Session
from holdfast.runtime.attachment import screen_state
from holdfast.runtime.capture.capture_record import moment_of
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import event, kernel_report, shell_report, wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.drift import authors, holdings, session_drift
from holdfast.runtime.pulse.pulse import Pulse
from holdfast.runtime.sessions import identity_messages
from holdfast.runtime.store import entry

pytestmark = pytest.mark.thorough

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 10**400, float("inf"), float("nan"), {}, [None], {"a": None}),
    *("\x1b]52;c;AA\x07", "\ud800", "x" * 5001),
)
EACH = 5
MOST = 1
"""Members of one list that are altered."""

Read = Callable[[Frame], object]


class Answering:
    """A client whose requests are answered with the same frame."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def request(self, *_: object, **__: object) -> Frame:
        return self._frame


def altered(value: Any, turn: Iterator[int]) -> Iterator[Any]:
    """Return copies with one value replaced, each by the next few of all values."""
    for _ in range(EACH):
        yield VALUES[next(turn) % len(VALUES)]
    if isinstance(value, dict):
        for key in value:
            for other in altered(value[key], turn):
                yield {**value, key: other}
            yield {name: one for name, one in value.items() if name != key}
    elif isinstance(value, list):
        for at in range(min(MOST, len(value))):
            for other in altered(value[at], turn):
                yield [*value[:at], other, *value[at + 1 :]]


def readers(session: Session) -> dict[str, tuple[Frame, Read]]:
    """Return real answers, each with its reader."""
    client = GuestClient(session._context.home.run_dir(session.row.id))
    journal = [
        one for one in client.call("journal", after_seq=0, limit=5) if one.head.get("event") == "entry"
    ]

    def look(frame: Frame) -> object:
        told = screen_state.ScreenReport.of(frame.head)
        return screen_state.parts(told.start, told.offset, told.entered, told.left, told.erased)

    return {
        "pulse": (client.request("pulse", files=True), lambda one: pulse(session, one)),
        "holdings": (
            client.request("holdings"),
            lambda one: json.dumps(holdings.encode(holdings.parse(wire_fields.body(one)))),
        ),
        "moment": (client.request("moment"), moment_of),
        "hello": (client.request("hello"), lambda one: shell_report.shell_info(Answering(one), "main")),  # type: ignore[arg-type]
        "hello, for kernels": (client.request("hello"), lambda one: kernel_report.Kernels.of(one.head)),
        "check_syntax": (
            client.request("check_syntax", payload=b"if true", shell="main"),
            lambda one: shell_report.check_syntax(Answering(one), "true", "main"),  # type: ignore[arg-type]
        ),
        "hooks": (
            client.request("hooks"),
            lambda one: identity_messages.HookOutcomes.of(wire_fields.body(one)),
        ),
        "look": (client.request("look", shell="main"), look),
        "lease": (
            client.request("lease", shell="main", action="show"),
            lambda one: shell_report.lease(one.head),
        ),
        "kernel_specs": (
            client.request("kernel_specs"),
            lambda one: kernel_report.KernelSpecs.of(one.head),
        ),
        "job_list": (client.request("job_list"), lambda one: job_info.JobList.of(one.head)),
        "events": (journal[-1], lambda one: event.parse(wire_fields.body(one))),
        "journal": (journal[-1], lambda one: entry.parse_line(one.payload)),
        "journal, for drift": (
            journal[-1],
            lambda one: authors.authors([session_drift._entry(one)]),
        ),
    }


def pulse(session: Session, frame: Frame) -> str:
    return json.dumps(Pulse.of(wire_fields.body(frame), lineage(session.row), None).as_dict())


def forged(frame: Frame) -> Iterator[Frame]:
    """Return the same answer, with different values in its place."""
    for head in altered(
        {key: value for key, value in frame.head.items() if key != "event"}, itertools.count()
    ):
        if isinstance(head, dict):  # anything else that is not a frame
            yield Frame({"event": frame.head.get("event"), **head}, frame.payload)
    if frame.payload[:1] == b"{":
        for body in altered(json.loads(frame.payload), itertools.count()):
            yield Frame(copy.copy(frame.head), json.dumps(body).encode())
    for payload in (b"", b"\xff", b"[" * 500_000, b"9" * 5000, b'{"at": ' + b"9" * 4000 + b"}"):
        yield Frame(copy.copy(frame.head), payload)


def test_answers_are_understood_or_refused_in_one_line(shared: Session, tmp_path: Path) -> None:
    """Other types, numbers beyond all bounds, nesting, missing fields, half characters: no error but ours."""
    shared.exec("sleep 1000 & cd /srv")
    shared.cell("x = [1]")
    shared.detach("sleep 1000", name="job")
    wrong: dict[str, str] = {}
    count = 0
    for name, (frame, read) in readers(shared).items():
        read(frame)
        for other in forged(frame):
            count += 1
            try:
                read(other)
            except HoldfastError as error:
                if "\n" in str(error):
                    wrong[f"{name}: lines"] = str(error)
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                wrong.setdefault(f"{name}: {type(error).__name__}", repr((error, str(other)[:300])))
    assert count > 1000
    assert wrong == {}
