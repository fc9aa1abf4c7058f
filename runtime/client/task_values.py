"""What a server says of tasks, as the values that the library has in process.  Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.api.redo_snapshot import Redo
from holdfast.runtime.api.session_task import TaskVerdict
from holdfast.runtime.api.task_resumption import TaskResumed
from holdfast.runtime.artifacts.generated_files import OrphanFile
from holdfast.runtime.artifacts.kept_artifact import KeptArtifact
from holdfast.runtime.client import client_values, insight_values
from holdfast.runtime.history.repositories.repository_state import RepositoryChange
from holdfast.runtime.task import task_form
from holdfast.runtime.task.classify_failure import FailureClass
from holdfast.runtime.task.stated_actions import StatedAction
from holdfast.runtime.task.task_record import TaskRecord
from holdfast.runtime.task.task_standing import PhaseStanding, StepStanding, TaskStanding
from holdfast.runtime.task.work_report import WorkReport


def record(raw: Any) -> TaskRecord:
    """Return a record.

    Raises:
        ProtocolError: it is not one, or a newer version's.
    """
    try:
        return task_form.load(client_values.table(raw))
    except InvalidArgument as error:
        raise ProtocolError(f"cannot understand the server: {error}") from error


def verdict(raw: Any) -> TaskVerdict:
    """Return what came out of a verification or an attempt."""
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
    """Return where a task stands."""
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
    """Return what was done on tasks."""
    return insight_values.read(WorkReport, client_values.table(raw))


def action(raw: Any) -> StatedAction:
    """Return an action that led to a snapshot."""
    return insight_values.read(StatedAction, raw)


def redo(raw: Any) -> Redo:
    """Return what was repeated."""
    told = client_values.table(raw)
    return insight_values.read(Redo, {name: told[name] for name in told if name != "complete"})


def text(raw: Any) -> str:
    """Return a text that is all of an answer."""
    return str(client_values.table(raw).get("text", ""))
