"""Every field of every value that a guest describes is refused, by its name, if it is not valid."""

import copy
import json
import typing
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.runtime.test_pulse import ORIGIN, RAW

from holdfast.errors import ProtocolError
from holdfast.runtime.api.job_info import JobList
from holdfast.runtime.api.pulse_calls import Sizes
from holdfast.runtime.attachment.screen_state import ScreenReport
from holdfast.runtime.capture.capture_record import Records, SupervisorCounters
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import event, wait_state
from holdfast.runtime.guest_rpc.guest_value import GuestValue
from holdfast.runtime.guest_rpc.kernel_report import Kernels, KernelSpecs
from holdfast.runtime.guest_rpc.shell_calls import Following
from holdfast.runtime.guest_rpc.shell_report import Shells, SyntaxCheck
from holdfast.runtime.history.drift import holdings, observe_session, session_drift
from holdfast.runtime.pulse.pulse import Answer, Probe
from holdfast.runtime.sessions.identity_messages import HookOutcomes

PULSE = {
    **RAW,
    "detail": {
        "pid": 12,
        "cwd": "/",
        "exe": "/bin/x",
        "waits_in": "poll",
        **{key: {} for key in ("memory", "io", "limits", "status")},
    },
    "file": {"path": "/x", "status": {"kind": "file", "size": 1, "modified": 2.0, "mode": 3, "uid": 0}},
}
HELD = {
    "at": 1.0,
    "seq": 2,
    "generation": 0,
    "processes": [{"pid": 3, "command": "x", "started": 1.0, "ports": [80], "role": "", "origin": "c1"}],
    "shells": {
        "main": {
            "pid": 1,
            "cwd": "/",
            "umask": 18,
            "functions": {},
            "aliases": {},
            "variables": {"A": ["x", 1, "d", None]},
        }
    },
    "kernels": {"main": {"epoch": 1, "names": {"x": ["int", "1"]}, "stale": False}},
}
PROBED = {"answer": "accepted", "http_status": 200, "first_line": "HTTP/1.1 200 OK"}
STATE = {"state": "waiting", "detail": "line", "pid": 7, "command": "cat", "since": 1.0, "prompt": "? "}
LEASE = {
    "holder": "agent",
    "since": 1.0,
    "active": 2.0,
    "until": 3.0,
    "attached": [{"actor": "person:a", "rows": 24, "cols": 80, "writes": True}],
}
SHELL = {
    "name": "main",
    "pid": 5,
    "rows": 24,
    "cols": 80,
    "offset": 9,
    "state": "prompt",
    "exec": "c1",
    "observed": STATE,
    "lease": LEASE,
    "cwd": "/",
}
KERNEL = {
    "name": "main",
    "spec": "python3",
    "language": "python",
    "cwd": "/",
    "pid": 9,
    "state": "idle",
    "observed": STATE,
    "execution_count": 2,
    "epoch": 1,
}
JOB = {
    "id": "t1",
    "name": "server",
    "command": "x",
    "cwd": "/",
    "actor": "agent",
    "pid": 5,
    "state": "exited",
    "started_at": 1.0,
    "duration": 2.0,
    "start_offset": 0,
    "end_offset": 4,
    "rows": 40,
    "cols": 120,
    "exit_code": 143,
    "signal": 15,
    "killed_by": "x",
    "observed": STATE,
}
COUNTERS = {"journal_seq": 1, "at": 2.0, "offsets": {"main": 3}, "requests": 4, "supervisor_pid": 5}
HOOK = {"hook": "/h", "event": "restored", "seconds": 0.5, "trouble": "exit 1", "output": "x"}
LOOK = {
    "start": 0,
    "offset": 90,
    "rows": 24,
    "cols": 80,
    "entered": 3,
    "left": 40,
    "erased": 2,
    "modes": [7, 25],
    "keypad": False,
}
ENDED: dict[str, Any] = {
    "exit_code": 1,
    "signal": None,
    "start_offset": 0,
    "end_offset": 4,
    "timed_out": False,
    "shell_exited": False,
    "incomplete": False,
    "duration": 1.0,
    "recorded": False,
    "message": "",
    "news": [],
    "cwd": "/",
}
SAMPLES: dict[type[GuestValue], Any] = {
    Answer: PULSE,
    holdings._HoldingsReport: HELD,
    Probe: PROBED,
    JobList: {"jobs": [JOB]},
    Shells: {"shells": [SHELL]},
    Kernels: {"kernels": [KERNEL]},
    KernelSpecs: {"specs": [{"name": "ir", "display_name": "R", "language": "R"}]},
    SyntaxCheck: {"message": "unexpected `)'", "line": 2, "incomplete": False},
    HookOutcomes: {"outcomes": [HOOK]},
    SupervisorCounters: COUNTERS,
    Records: COUNTERS,
    observe_session.Facts: {"facts": [None, ["f", 1, 2, 3, -1]]},
    Sizes: {"sizes": [1, None]},
    observe_session.Versions: {"versions": {"3": {"new": "1.0"}}},
}
WRONG = -0.5
"""It is of no agreed type."""
DROPPED = ("screen", "stale")
"""What the guest says there does not count, whatever it is."""


def model(annotation: Any) -> type[GuestValue] | None:
    if isinstance(annotation, type) and issubclass(annotation, GuestValue):
        return annotation
    return next(filter(None, map(model, typing.get_args(annotation))), None)


def fields(kind: type[GuestValue], sample: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place in the sample of every field of a model and of its nested models."""
    for name, field in kind.model_fields.items():
        name = field.alias or name
        if name not in DROPPED:
            yield (*path, name)
        inner, below = model(field.annotation), sample.get(name)
        if inner is None:
            continue
        if isinstance(below, list):
            best = max(
                range(len(below)), key=lambda at: sum(value is not None for value in below[at].values())
            )
            yield from fields(inner, below[best], (*path, name, best))
        elif below is not None and not issubclass(inner, (holdings.HeldShell, holdings.HeldKernel)):
            yield from fields(inner, below, (*path, name))
        else:
            yield from fields(inner, below["main"], (*path, name, "main"))


PLACES = [(kind, path) for kind, sample in SAMPLES.items() for path in fields(kind, sample)]


def changed(sample: Any, path: tuple[Any, ...], value: Any) -> Any:
    found = copy.deepcopy(sample)
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return found


def test_all_models_are_tried() -> None:
    """The samples reach every model of a guest's statements."""
    tried = {kind for kind, _ in PLACES}
    for kind, path in PLACES:
        here: Any = kind
        for step in path:
            if isinstance(step, str) and step in here.model_fields:
                here = model(here.model_fields[step].annotation) or here
                tried.add(here)
    every = {*GuestValue.__subclasses__(), *Records.__subclasses__()}
    assert {kind for kind in every if kind.__name__ != "_Change"} == tried


@pytest.mark.parametrize(
    ("kind", "path"),
    PLACES,
    ids=lambda given: given.__name__ if isinstance(given, type) else ".".join(map(str, given)),
)
def test_a_wrong_field_is_refused_by_its_name(kind: type[GuestValue], path: tuple[Any, ...]) -> None:
    """The message says which it is, in one line that repeats nothing of the value."""
    sample = SAMPLES[kind]
    kind.of(sample)
    with pytest.raises(ProtocolError) as caught:
        kind.of(changed(sample, path, WRONG))
    assert f"'{'.'.join(map(str, path))}" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    strange: tuple[Any, ...] = (float("nan"), 10**400, "x" * 1_000_001, [None] * 50_001)
    for value in strange:
        with suppress(ProtocolError):  # and nothing else
            kind.of(changed(sample, path, value))


def test_bounds_of_statements() -> None:
    """A number, a text and a list that are too large are refused; unknown fields are passed over."""
    for path, value in (
        (("processes", "rows", 0, "resident"), 2**63),
        (("processes", "rows", 0, "age"), 10**400),
        (("processes", "rows", 0, "command"), "x" * 1_000_001),
        (("processes", "rows"), [PULSE["processes"]["rows"][0]] * 20_001),
        (("files", "rows", 0, "flags"), ["x"] * 1001),
    ):
        with pytest.raises(ProtocolError, match=r"'[a-z.0-9]+' of its 'answer' is not valid"):
            Answer.of(changed(PULSE, path, value))
    assert Answer.of({**PULSE, "news": 1}) == Answer.of(PULSE)
    assert Answer.of(changed(PULSE, ("terminals", 0, "screen"), "\x1b[2J")).terminals[0].screen is None
    assert ORIGIN["id"] in repr(Answer.of(PULSE))


@pytest.mark.parametrize("place", range(5))
def test_a_wrong_fact_about_a_file_is_refused_by_its_place(place: int) -> None:
    """Kind, size, times and owner: the fact and the file are named; times before 1970 count as 1970."""
    facts: list[Any] = ["f", 1, 2, 3, -1]
    for value in (WRONG, True, None, [None], 10**400):
        with pytest.raises(ProtocolError, match=rf"'facts\.1\.{place}' of its 'facts'"):
            observe_session.Facts.of({"facts": [None, [*facts[:place], value, *facts[place + 1 :]]]})
    with pytest.raises(ProtocolError, match=r"'facts\.0"):
        observe_session.Facts.of({"facts": [facts[:4]]})
    assert observe_session.Facts.of({"facts": [["link", -1, -2, 3, -1]]}).facts == [("l", 0, 0, 3, -1)]


def test_versions_of_packages_are_read_by_number() -> None:
    """Numbers are keys of JSON, hence texts; a version is cut."""
    read = observe_session.Versions.of({"versions": {"3": {"new": "1" * 99}}}).versions
    assert read == {3: {"new": "1" * 64}}
    wrong: tuple[Any, ...] = ({"x": {}}, {"100000": {}}, {"-1": {}}, {"3": {"new": None}}, {"3": []})
    for each in wrong:
        with pytest.raises(ProtocolError, match=r"'versions\."):
            observe_session.Versions.of({"versions": each})


def entry(told: Any) -> object:
    return session_drift._entry(Frame({"event": "entry"}, json.dumps(told).encode()))


def ended(head: Any) -> object:
    nothing: Any = None
    return Following(nothing, nothing, "c1", shell="main")._finish(Frame(head))


@pytest.mark.parametrize(
    ("read", "sample"),
    [
        (wait_state.state, {**STATE, "exit_code": None, "signal": None}),
        (event.parse, {"seq": 1, "at": 2.0, "kind": "oom"}),
        (ended, ENDED),
        (ScreenReport.of, LOOK),
        (entry, {"seq": 1, "at": 2.0}),
    ],
    ids=["state", "event", "end of a command", "screen", "entry"],
)
def test_a_wrong_field_read_on_its_own_is_refused_by_its_name(read: Any, sample: Any) -> None:
    """On the path of `exec`, and in journal entries, fields are read one by one, with the same result."""
    read(sample)
    for name in sample:
        for value in (WRONG, 10**400, [None] * 1001, float("nan")):
            with pytest.raises(ProtocolError, match=f"'{name}' of its") as caught:
                read({**sample, name: value})
            assert len(str(caught.value).splitlines()) == 1


@pytest.mark.filterwarnings("error")
def test_a_job_for_programs_has_the_sessions_fields() -> None:
    """The same fields; its state whole, its beginning as a date."""
    whole = {**JOB, "observed": {**STATE, "exit_code": None, "signal": None}}
    told = JobList.of({"jobs": [whole]}).jobs[0].as_dict()
    assert told == {**whole, "started_at": "1970-01-01T00:00:01+00:00"}
    assert list(told)[:6] == ["id", "name", "command", "cwd", "actor", "pid"]
