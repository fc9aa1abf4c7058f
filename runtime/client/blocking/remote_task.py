# Made by setup/blocking from ../aio/async_task.py; do not edit.
"""The task of a session, and the artifacts of a home, over a URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.session_task import VERIFY_SECONDS, SessionTask, TaskVerdict
from holdfast.runtime.api.task_resumption import TaskResumed
from holdfast.runtime.artifacts.generated_files import OrphanFile
from holdfast.runtime.artifacts.kept_artifact import KeptArtifact, SavedArtifact
from holdfast.runtime.client import client_values, insight_values
from holdfast.runtime.client.blocking.remote_connection import asking
from holdfast.runtime.client.blocking.remote_snapshot import RemoteSnapshot
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.task.handoff import DEFAULT_BUDGET
from holdfast.runtime.task.task_record import TaskRecord

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SnapshotKind


class RemoteTask:
    """The task of one session, as `SessionTask` has it."""

    def __init__(self, transport: RemoteTransport, session: str) -> None:
        self._transport, self._session = transport, session

    def record(self) -> TaskRecord | None:
        """Return the record; None if the session does not have a task."""
        told = self._look()
        return None if told is None else insight_values.record(told)

    def _changed(self, verb: str, fields: dict[str, Any]) -> TaskRecord:
        return insight_values.record(self._tell(verb, fields))

    set = asking(SessionTask.set, _changed)
    plan = asking(SessionTask.plan, _changed)
    step = asking(SessionTask.step, _changed)
    claim = asking(SessionTask.claim, _changed)
    release = asking(SessionTask.release, _changed)
    decide = asking(SessionTask.decide, _changed)
    alternative = asking(SessionTask.alternative, _changed)
    note = asking(SessionTask.note, _changed)
    answer = asking(SessionTask.answer, _changed)
    read_again = asking(SessionTask.read_again, _changed, "read-again")
    artifact = asking(SessionTask.artifact, _changed, "artifact")
    drop = asking(SessionTask.drop, _changed)
    block = asking(SessionTask.block, _changed)
    unblock = asking(SessionTask.unblock, _changed)
    import_ = asking(SessionTask.import_, _changed, "import")

    def collect_artifacts(self) -> list[str]:
        """Register the files that the policy's patterns match, new or changed; return their names."""
        told = client_values.table(self._tell("artifacts", None))
        return [str(each) for each in told.get("registered") or ()]

    def orphans(self) -> list[OrphanFile]:
        """Return files that were generated in the session and that nothing accounts for."""
        return [insight_values.orphan(each) for each in client_values.tables(self._look("orphans"))]

    def done(
        self,
        number: str,
        *,
        timeout: float = VERIFY_SECONDS,
        junit: str | None = None,
        busy_wait: float | None = None,
    ) -> TaskVerdict:
        """Mark a step as done, if its verification passes, and the test report that it writes."""
        body = given(number=number, timeout=timeout, junit=junit, busy_wait=busy_wait)
        return insight_values.verdict(self._tell("done", body))

    def attempt(self, number: str, entry: str) -> TaskVerdict:
        """Record a command that was run in the session as an attempt at a step."""
        return insight_values.verdict(self._tell("attempt", {"number": number, "entry": entry}))

    def checkpoint(
        self, label: str | None = None, *, resume_at: str | None = None, kind: SnapshotKind = "live"
    ) -> RemoteSnapshot:
        """Capture the session together with the record, at one instant."""
        body = given(label=label, resume_at=resume_at, kind=kind)
        return RemoteSnapshot(self._transport, self._tell("checkpoint", body))

    def handoff(self, budget: int = DEFAULT_BUDGET) -> str:
        """Return what a successor needs, in at most `budget` tokens."""
        return insight_values.text(self._look("handoff", budget=budget))

    def resume(self) -> TaskResumed:
        """Bring the session to where the task can be continued, and return where it stands."""
        return insight_values.resumed(self._tell("resume", None))

    def export(self) -> str:
        """Return the record as Markdown with fixed sections, which `import_` takes."""
        return insight_values.text(self._look("markdown"))

    def _look(self, *what: str, **params: Any) -> Any:
        call = HttpCall("GET", place("sessions", self._session, "task", *what), params)
        return self._transport.ask(call)

    def _tell(self, verb: str, body: dict[str, Any] | None) -> Any:
        call = HttpCall("POST", place("sessions", self._session, "task", verb), body=body)
        return self._transport.ask(call)


class RemoteArtifacts:
    """What sessions have registered as artifacts, as `HomeArtifacts` has it."""

    def __init__(self, transport: RemoteTransport) -> None:
        self._transport = transport

    def list(self, session: str | None = None) -> list[KeptArtifact]:
        """Return all artifacts, or only a session's (its name or id), oldest first."""
        told = self._transport.ask(self._call("GET", session=session))
        return [insight_values.artifact(each) for each in client_values.tables(told)]

    def find(self, name: str, session: str | None = None) -> KeptArtifact:
        """Return the artifact of a name; `session` is a name or id, also of a removed session."""
        call = self._call("GET", "entry", name=name, session=session)
        return insight_values.artifact(self._transport.ask(call))

    def parts(self, name: str, session: str | None = None) -> Iterator[bytes]:
        """Yield the content of an artifact as it comes."""
        call = self._call("GET", "content", name=name, session=session)
        with self._transport.bytes_of(call, {}) as body:
            for part in body:
                yield part

    def save(self, name: str, to: Path | str, *, session: str | None = None) -> Path:
        """Save an artifact as a file, or into a folder, and return its path."""
        found = self.find(name, session)
        with SavedArtifact(found, to) as file:
            for part in self.parts(name, found.session_id):
                file.write(part)
        return file.place

    def remove(self, name: str, session: str | None = None) -> KeptArtifact:
        """Remove an artifact, and return what it was."""
        call = self._call("DELETE", name=name, session=session)
        return insight_values.artifact(self._transport.ask(call))

    def _call(self, method: str, *what: str, **params: Any) -> HttpCall:
        return HttpCall(method, place("artifacts", *what), given(**params))
