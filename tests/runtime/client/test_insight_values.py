"""A server's report of a session's state and history equals the library's in process, or is an error."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from tests.runtime import test_pulse
from tests.runtime.history.drift.test_drift_text import TYPICAL

from holdfast.base import printable_json
from holdfast.errors import ProtocolError
from holdfast.runtime.client import insight_values
from holdfast.runtime.egress.attempt_log import Refusal
from holdfast.runtime.egress.network_changes import Reach
from holdfast.runtime.flaky.spread import Run, Spread
from holdfast.runtime.history.diff.diff_result import Diff
from holdfast.runtime.history.drift.changed_paths import FileChange
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.starting_point import StartingPoint
from holdfast.runtime.history.recording.cast import CastEvent
from holdfast.runtime.history.recording.recording import RecordingPart
from holdfast.runtime.pulse.pulse import AskedFile, Detail, Listener, Port, Pulse
from holdfast.runtime.restore.compat.command_history import Recorded
from holdfast.runtime.serve.answer_forms import PrintableAnswer
from holdfast.runtime.serve.models.answer_models import SpreadAnswer
from holdfast.runtime.serve.routes.snapshot_routes import spread_table
from holdfast.runtime.store.entry import Entry
from holdfast.snapshots.failure import Debugger, Failure
from holdfast.snapshots.fitness import Ladder, Rung
from holdfast.snapshots.survivability import Resource, Survivability
from holdfast.snapshots.verification import Deviation, Verification


def _pulse() -> Pulse:
    found = test_pulse.read()
    screen = found.terminals[0].model_copy(update={"screen": "$ su\nPassword:"})
    return replace(
        found,
        terminals=(screen, *found.terminals[1:]),
        detail=Detail.of({"pid": 12, "cwd": "/work", "memory": {"swap": 4}}),
        file=AskedFile("/data/db", True, "file", 100, 5.5, 0o644, 0, found.files),
    )


PULSE = _pulse()
SOCKET = PULSE.listening(80)[0]
PORT = Port(
    80, (Listener(SOCKET, PULSE.process(12), "accepted", 200, "HTTP/1.0 200 OK"), Listener(SOCKET, None))
)
FILES = (
    FileChange("/w/\udcff", "new", 3, 150.25, folder=True, owner=("pip", "/x", "idna"), by=(41, 42)),
    FileChange("/w/old", "deleted", at=0.0),
)
DRIFT = replace(TYPICAL, files=(*TYPICAL.files, *FILES), noise=4, notes=("nothing else",))
DIFF = Diff(
    "one",
    "two",
    Drift(
        "0123456789ab",
        StartingPoint("one", 100.0, None, "aaaaaaaaaaaa", until="two"),
        200.5,
        files=(FileChange("/w/new", "new", 3, folder=True),),
        packages=TYPICAL.packages[:0],
        shell=(replace(TYPICAL.shell[0], by=()),),
    ),
)
ENTRY = Entry(
    "0123456789ab", "work", 7, 12.5, "command_ended", "agent", details={"id": "c", "data": {"x": [1, None]}}
)
REACH = Reach(
    "internet",
    ("db:5432",),
    ("mirror:80",),
    ("192.0.2.53",),
    (Refusal("192.0.2.1", "tcp", 80, 3, 100.0, 200.0), Refusal("192.0.2.2", "icmp", 0, 1, 100.0, 100.0)),
    refused_more=True,
    domains=("packages.example",),
    secrets=(("TOKEN", ("api.test", "b.test")),),
)
CHECK = Survivability(
    (Resource("process", 5, "sleep 9", "sleep 9", also=(6, 7)), Resource("traced", 8, "x", "x", 3, own=True)),
    *(2, 10, 4096, 0, 1 << 40),
    seconds=0.25,
    whole=False,
    left_out=2,
    changed_files=5,
    changed_length=1 << 33,
    changed_bytes=4096,
    fault="folders are nested too deep",
)
VERIFIED = Verification(
    compared={"processes": 3}, deviations=[Deviation(about="file", pid=4, text="gone")], more=1
)

LADDER = Ladder(
    rungs=[
        Rung(name="live", possible=False, reasons=["its kernel is newer"], notes=["slow"]),
        Rung(name="files", possible=True, lost=["processes"]),
    ]
)
RECORDED = Recorded("command", "make", "main", 5.5, "agent", 2, ("yes", None), cut=True)
FAILURE = Failure(reason="failed", command="make", exit_code=2, debugger=Debugger(program="pdb", job="t"))
SPREAD = Spread(
    "make",
    "moment",
    9,
    (
        Run(1, "exit", 0, "", 1.5, ("one", "two"), ("copy-1",), "d1", kept="copy-1"),
        Run(2, "exit", 3, "", 0.5, ("one", "2"), ("copy-2",), "d2", apart=True),
        Run(3, "waiting", None, "line", 2.0, ("? ",), ("copy-3",), "d3"),
    ),
    compare_output=True,
)
PART = RecordingPart(5, 90, 0, 100, 0, 12.5, 40, 120, "work")

Read = Callable[[Any], Any]
VALUES: dict[str, tuple[Any, Any, Read]] = {
    "pulse": (PULSE, PULSE.as_dict(), insight_values.pulse),
    "port": (PORT, PORT.as_dict(), insight_values.port),
    "drift": (DRIFT, DRIFT.as_dict(), insight_values.drift),
    "diff": (DIFF, DIFF.as_dict(), insight_values.diff),
    "entry": (ENTRY, ENTRY.as_dict(), insight_values.entry),
    "reach": (REACH, REACH.as_dict(), insight_values.reach),
    "check": (CHECK, CHECK.as_dict(own=True), insight_values.survivability),
    "verification": (VERIFIED, VERIFIED.model_dump(), insight_values.verification),
    "ladder": (LADDER, LADDER.as_dict(), insight_values.ladder),
    "recorded": (RECORDED, asdict(RECORDED), insight_values.recorded),
    "spread": (SPREAD, spread_table(SPREAD), insight_values.spread),
    "recording": (PART, asdict(PART), insight_values.recording_part),
}


def _sent(table: Any) -> Any:
    """Return a table as it arrives from a server."""
    return json.loads(bytes(PrintableAnswer(table).body))


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back(name: str) -> None:
    value, table, read = VALUES[name]
    assert read(_sent(table)) == value


def test_values_over_a_url_equal_values_in_process() -> None:
    found = insight_values.drift(_sent(DRIFT.as_dict()))
    assert found.text() == DRIFT.text()
    assert insight_values.diff(_sent(DIFF.as_dict())).text() == DIFF.text()
    pulse = insight_values.pulse(_sent(PULSE.as_dict()))
    assert pulse.terminals[0].screen == "$ su\nPassword:"
    assert pulse.terminals[0].observed.waits
    assert insight_values.verification(None) is None


def _broken(value: Any) -> Iterator[Any]:
    """Yield copies of a table in which one thing, at any depth, is missing or something else."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    others: list[Any] = [None, [], {}, "\x00", -1, True]
    for key in keys:
        for other in others:
            changed = copy.copy(value)
            changed[key] = other
            yield changed
        if isinstance(value, dict):
            yield {name: each for name, each in value.items() if name != key}
        for inner in _broken(value[key]):
            changed = copy.copy(value)
            changed[key] = inner
            yield changed


@pytest.mark.parametrize("name", VALUES)
def test_anything_else_is_an_error(name: str) -> None:
    _, table, read = VALUES[name]
    refused = 0
    for told in [None, [], "x", *_broken(_sent(table))]:
        try:
            read(told)
        except ProtocolError as error:
            refused += str(error).startswith("cannot understand the server")
    assert refused >= 10, refused


def test_outputs_of_the_same_kind_are_sent_once() -> None:
    """The verdict, the kinds and their differences are as in process."""
    more = replace(SPREAD, runs=(*SPREAD.runs, replace(SPREAD.runs[1], number=4, names=("copy-4",))))
    told = _sent(spread_table(more))
    assert [bool(each["output"]) for each in told["runs"]] == [True, True, True, False]
    found = insight_values.spread(told)
    assert found.as_dict() == more.as_dict()
    assert SpreadAnswer.model_validate(told)


def test_failures() -> None:
    assert insight_values.failure(None) is None
    assert insight_values.failure(_sent(FAILURE.as_details())) == FAILURE
    assert insight_values.failure({"reason": 5}) is None  # as in process, where other machines gave it


def test_events_of_recordings() -> None:
    event = CastEvent(5.5, "o", "\x1b[1m\udcff", 7)
    assert insight_values.cast_event(printable_json.dumps(asdict(event)).encode()) == event
    for line in (
        b"",
        b"[]",
        b"\xff",
        b"{}",
        b'{"at": "x", "code": "o", "data": "", "offset": 1}',
        b"[" * 9999,
    ):
        with pytest.raises(ProtocolError):
            insight_values.cast_event(line)


def test_findings_of_a_newer_server() -> None:
    told = CHECK.as_dict(own=True)
    told["findings"][0]["kind"] = "quantum"
    with pytest.raises(ProtocolError, match="this version does not know"):
        insight_values.survivability(told)
