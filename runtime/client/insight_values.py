"""Values of a session's state, history and task, from a server's answers. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.access.shared_links import SharedLink
from holdfast.runtime.api.redo_snapshot import Redo
from holdfast.runtime.api.session_task import TaskVerdict
from holdfast.runtime.api.task_resumption import TaskResumed
from holdfast.runtime.artifacts.generated_files import OrphanFile
from holdfast.runtime.artifacts.kept_artifact import KeptArtifact
from holdfast.runtime.client import client_values, insight_values
from holdfast.runtime.egress.attempt_log import Refusal
from holdfast.runtime.egress.network_changes import Reach
from holdfast.runtime.flaky.spread import Run, Spread
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.history.diff.diff_result import Diff
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.recording.cast import CastEvent
from holdfast.runtime.history.recording.recording import RecordingPart
from holdfast.runtime.history.repositories.repository_state import RepositoryChange
from holdfast.runtime.pulse.listening_ports import ListeningPort, Preview
from holdfast.runtime.pulse.metrics_history import Metrics
from holdfast.runtime.pulse.pulse import Port, Pulse
from holdfast.runtime.restore.compat.command_history import Recorded
from holdfast.runtime.store.entry import FIELDS, Entry
from holdfast.runtime.task import task_form
from holdfast.runtime.task.classify_failure import FailureClass
from holdfast.runtime.task.stated_actions import StatedAction
from holdfast.runtime.task.task_record import TaskRecord
from holdfast.runtime.task.task_standing import PhaseStanding, StepStanding, TaskStanding
from holdfast.runtime.task.work_report import WorkReport
from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE
from holdfast.snapshots.failure import Failure
from holdfast.snapshots.fitness import Ladder
from holdfast.snapshots.survivability import Survivability
from holdfast.snapshots.verification import Verification

Value = TypeVar("Value")
Table = Mapping[str, Any]


def pulse(raw: Any) -> Pulse:
    """Return the activity in a session."""
    told = client_values.table(raw)
    found = read(Pulse, told)
    # Dropped where the words of a session are read; this screen was drawn by the server.
    screens = [each.get("screen") for each in told.get("terminals", ())]
    shown = (
        each.model_copy(update={"screen": None if text is None else str(text)})
        for each, text in zip(found.terminals, screens, strict=True)
    )
    return replace(found, terminals=tuple(shown))


def port(raw: Any) -> Port:
    """Return the listener at a port."""
    return read(Port, raw)


def listening_port(raw: Any) -> ListeningPort:
    """Return a port with a listener."""
    return read(ListeningPort, raw)


def preview(raw: Any) -> Preview:
    """Return a link for people to a port."""
    return read(Preview, raw)


def shared_link(raw: Any) -> SharedLink:
    """Return a link by which others see a session."""
    return read(SharedLink, raw)


def metrics(raw: Any) -> Metrics:
    """Return one sample of a session's metrics."""
    return read(Metrics, raw)


def entry(raw: Any) -> Entry:
    """Return an entry of a journal."""
    told = client_values.table(raw)
    details = {name: value for name, value in told.items() if name not in FIELDS}
    return read(Entry, {**{name: told.get(name) for name in FIELDS}, "details": details})


def drift(raw: Any) -> Drift:
    """Return the changes in a session."""
    return read(Drift, _shaped(_drift, client_values.table(raw)))


def diff(raw: Any) -> Diff:
    """Return the differences between two snapshots."""
    told = client_values.table(raw)
    names = _shaped(lambda table: {"before": table["from"], "after": table["to"]}, told)
    return read(Diff, {**names, "drift": drift({"authors": {}, **told})})


def reach(raw: Any) -> Reach:
    """Return the reach of a session."""

    def shaped(told: Table) -> dict[str, Any]:
        refused = [
            Refusal(
                str(one["address"]),
                str(one["protocol"]),
                int(one["port"] or 0),
                int(one["packets"]),
                _seconds(one["first"]),
                _seconds(one["last"]),
            )
            for one in told["refused"]
        ]
        return {**told, "refused": refused, "secrets": list(told["secrets"].items())}

    return read(Reach, _shaped(shaped, client_values.table(raw)))


def survivability(raw: Any) -> Survivability:
    """Return the survivability of a session in a capture."""

    def shaped(told: Table) -> dict[str, Any]:
        if any(each["kind"] not in CATALOGUE for each in told["findings"]):
            raise ProtocolError(
                "cannot understand the server: it reports something that this version does not know"
            )
        return {**told, "resources": told["findings"]}

    return read(Survivability, _shaped(shaped, client_values.table(raw)))


def verification(raw: Any) -> Verification | None:
    """Return the comparison of a restored session with its capture."""
    return None if raw is None else read(Verification, raw)


def ladder(raw: Any) -> Ladder:
    """Return the possible rungs of a snapshot."""
    return read(Ladder, raw)


def recorded(raw: Any) -> Recorded:
    """Return a command, cell or job that ran before a snapshot."""
    return read(Recorded, raw)


def failure(raw: Any) -> Failure | None:
    """Return the failure that a snapshot was taken for."""
    return None if raw is None else Failure.parse(client_values.table(raw))


def spread(raw: Any) -> Spread:
    """Return the distribution of the ends of one command's runs; outputs are from the first run of each
    kind."""
    told = client_values.table(raw)
    runs = tuple(read(Run, each) for each in client_values.tables(told.get("runs")))
    return Spread(
        wire_fields.text(told, "command"),
        wire_fields.text(told, "snapshot"),
        wire_fields.integer(told, "asked"),
        runs,
        wire_fields.flag(told, "compare_output"),
    )


def recording_part(raw: Any) -> RecordingPart:
    """Return the facts of a recording."""
    return read(RecordingPart, raw)


def cast_event(line: bytes) -> CastEvent:
    """Return one event of a recording."""
    try:
        return read(CastEvent, json.loads(line))
    except (ValueError, RecursionError):
        raise ProtocolError("cannot understand the server: its recording is not valid") from None


def read(kind: type[Value], raw: Any) -> Value:
    """Return a value of this class.

    Raises:
        ProtocolError: the fields are not those of one.
    """
    named: Any = kind
    try:
        found: Value = _adapter(named).validate_python(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:100]
        raise ProtocolError(
            f"cannot understand the server: '{where}' of its '{kind.__name__.lower()}' is not valid"
        ) from None
    return found


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _shaped(shape: Callable[[Table], dict[str, Any]], told: Table) -> dict[str, Any]:
    try:
        return shape(told)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ProtocolError("cannot understand the server: its answer has an unexpected form") from None


def _drift(told: Table) -> dict[str, Any]:
    """Return the fields of a drift: some have different names in JSON, and times are texts."""
    since = told["since"]
    return {
        **told,
        "at": _seconds(told["at"]),
        "since": {**since, "at": _seconds(since["at"]), "snapshot_id": since["snapshot"]},
        "files": [{**one, "size": one["bytes"], "at": _moment(one["at"])} for one in told["files"]],
        "packages": [{**one, "at": _moment(one["at"])} for one in told["packages"]],
        "processes": [{**one, "ended": one["ended"] or ""} for one in told["processes"]],
        "shell": [{**one, "where": one["shell"]} for one in told["shell"]],
        "kernel": [{**one, "where": one["kernel"]} for one in told["kernel"]],
        "authors": {
            number: {
                **one,
                "seq": number,
                "begin": _seconds(one["begin"]),
                "end": math.inf if one["end"] is None else _seconds(one["end"]),
            }
            for number, one in told["authors"].items()
        },
    }


def _seconds(text: Any) -> float:
    return client_values.moment(text).timestamp()


def _moment(text: Any) -> float | None:
    return None if text is None else _seconds(text)


def record(raw: Any) -> TaskRecord:
    """Return a record.

    Raises:
        ProtocolError: it is not one, or a newer version's.
    """
    try:
        return task_form.load(client_values.table(raw))
    except InvalidArgument as error:
        raise ProtocolError(f"cannot understand the server: {error}") from error


def known_record(raw: Any) -> TaskRecord | None:
    """Return a record, if there is one."""
    return None if raw is None else record(raw)


def registered(raw: Any) -> list[str]:
    """Return the names of the artifacts that were registered."""
    return list(client_values.texts(client_values.table(raw).get("registered")))


def verdict(raw: Any) -> TaskVerdict:
    """Return the result of a verification or an attempt."""
    told = client_values.table(raw)
    failure = told.get("failure")
    return TaskVerdict(
        record(told.get("record")),
        done=told.get("done") is True,
        entry=None if told.get("entry") is None else str(told["entry"]),
        failure=None if failure is None else insight_values.read(FailureClass, failure),
        output=str(told.get("output", "")),
        checkpoint=None if told.get("checkpoint") is None else str(told["checkpoint"]),
    )


def resumed(raw: Any) -> TaskResumed:
    """Return a task that can be continued."""
    told = client_values.table(raw)
    drift = told.get("drift")
    found = None if drift is None else insight_values.drift(drift)
    moved = client_values.tables(told.get("git"))
    git = tuple(insight_values.read(RepositoryChange, each) for each in moved)
    running, ran, undone = (client_values.texts(told.get(name)) for name in ("running", "ran", "undone"))
    return TaskResumed(record(told.get("record")), str(told.get("session")), found, git, running, ran, undone)


def artifact(raw: Any) -> KeptArtifact:
    """Return an artifact that a home keeps.

    Raises:
        ProtocolError: it is not one.
    """
    try:
        return KeptArtifact.model_validate(client_values.table(raw))
    except ValidationError as error:
        raise ProtocolError("cannot understand the server: an artifact has an unexpected form") from error


def orphan(raw: Any) -> OrphanFile:
    """Return a generated file that nothing accounts for."""
    return insight_values.read(OrphanFile, client_values.table(raw))


def standing(raw: Any) -> TaskStanding:
    """Return the state of a task."""
    told = client_values.table(raw)
    known = {field.name for field in fields(TaskStanding)}
    found = {name: told[name] for name in told if name in known}
    phases = tuple(_phase(each) for each in client_values.tables(told.get("phases")))
    return insight_values.read(TaskStanding, {**found, "phases": phases})


def _phase(told: dict[str, Any]) -> PhaseStanding:
    each = client_values.tables(told.get("each", []))
    return insight_values.read(
        PhaseStanding, {**told, "each": tuple(insight_values.read(StepStanding, one) for one in each)}
    )


def work_report(raw: Any) -> WorkReport:
    """Return the work done on tasks."""
    return insight_values.read(WorkReport, client_values.table(raw))


def action(raw: Any) -> StatedAction:
    """Return an action that led to a snapshot."""
    return insight_values.read(StatedAction, raw)


def redo(raw: Any) -> Redo:
    """Return the repeated actions."""
    told = client_values.table(raw)
    return insight_values.read(Redo, {name: told[name] for name in told if name != "complete"})


def text(raw: Any) -> str:
    """Return an answer that is one text."""
    return str(client_values.table(raw).get("text", ""))
