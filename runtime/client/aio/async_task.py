"""The task of a session, and the artifacts of a home, over a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.session_task import VERIFY_SECONDS, TaskVerdict
from holdfast.runtime.api.task_resumption import TaskResumed
from holdfast.runtime.artifacts.generated_files import OrphanFile
from holdfast.runtime.artifacts.kept_artifact import KeptArtifact
from holdfast.runtime.artifacts.saved_artifact import SavedArtifact
from holdfast.runtime.client import client_values, insight_values
from holdfast.runtime.client.aio.async_snapshot import AsyncSnapshot
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.task.handoff import DEFAULT_BUDGET
from holdfast.runtime.task.task_record import TaskRecord

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SnapshotKind
    from holdfast.runtime.task.task_items import NoteKind
    from holdfast.runtime.task.task_record import StepStatus


class AsyncTask:
    """The task of one session, as `SessionTask` has it."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport, self._session = transport, session

    async def record(self) -> TaskRecord | None:
        """Return the record; None if the session has no task."""
        told = await self._look()
        return None if told is None else insight_values.record(told)

    async def set(
        self,
        *,
        goal: str | None = None,
        resume_at: str | None = None,
        retry_limit: int | None = None,
        verify: str | None = None,
        back_end: str | None = None,
        artifacts: str | None = None,
        profiles: Mapping[str, str] | None = None,
        checkpoint: str | None = None,
    ) -> TaskRecord:
        """Set the goal, which begins a task, the resume point, or what must hold for every successor."""
        fields: dict[str, Any] = {"goal": goal, "resume_at": resume_at, "retry_limit": retry_limit}
        fields |= {"artifacts": artifacts, "checkpoint": checkpoint}
        fields |= {"profiles": None if profiles is None else dict(profiles)}
        return await self._change("set", **fields, verify=verify, back_end=back_end)

    async def plan(self, text: str) -> TaskRecord:
        """Replace the plan: a line for each phase, then `- STEP` or `- STEP :: COMMAND`."""
        return await self._change("plan", text=text)

    async def step(
        self,
        number: str,
        *,
        status: StepStatus | None = None,
        title: str | None = None,
        verify: str | None = None,
        back_end: str | None = None,
    ) -> TaskRecord:
        """Change a step."""
        fields = {"status": status, "title": title, "verify": verify, "back_end": back_end}
        return await self._change("step", number=number, **fields)

    async def claim(self, number: str, *, take: bool = False) -> TaskRecord:
        """Claim a step: others are refused to finish it, or to claim it, until it is done or released."""
        return await self._change("claim", number=number, take=take or None)

    async def release(self, number: str) -> TaskRecord:
        """Give up the claim of a step."""
        return await self._change("release", number=number)

    async def decide(self, text: str, why: str) -> TaskRecord:
        """Lock a decision, with its reason."""
        return await self._change("decide", text=text, why=why)

    async def alternative(self, text: str, why: str) -> TaskRecord:
        """Record a path that was not taken, and why: a successor may have reason to."""
        return await self._change("alternative", text=text, why=why)

    async def note(self, text: str, kind: NoteKind = "note", *, step: str | None = None) -> TaskRecord:
        """Add a remark, an open `question` or a `risk`; a question about a step blocks it until answered."""
        return await self._change("note", text=text, kind=kind, step=step)

    async def answer(self, number: int, text: str) -> TaskRecord:
        """Answer an open question, counted from 1; the answer is a locked decision from then on."""
        return await self._change("answer", number=number, text=text)

    async def read_again(self, path: str, why: str | None = None) -> TaskRecord:
        """Add a file that a successor should read before continuing."""
        return await self._change("read-again", path=path, why=why)

    async def artifact(self, name: str, path: str, *, entry: str | None = None) -> TaskRecord:
        """Register a file that the work has produced, and keep it beyond the session's life."""
        return await self._change("artifact", name=name, path=path, entry=entry)

    async def collect_artifacts(self) -> list[str]:
        """Register the files that the policy's patterns match, new or changed; return their names."""
        told = client_values.table(await self._tell("artifacts", None))
        return [str(each) for each in told.get("registered") or ()]

    async def orphans(self) -> list[OrphanFile]:
        """Return files that were generated in the session and that nothing accounts for."""
        return [insight_values.orphan(each) for each in client_values.tables(await self._look("orphans"))]

    async def drop(self, kind: str, number: int) -> TaskRecord:
        """Remove what is settled."""
        return await self._change("drop", kind=kind, number=number)

    async def block(
        self,
        why: str,
        needs: str,
        *,
        step: str | None = None,
        entry: str | None = None,
        tried: str | None = None,
        suspend: bool = False,
    ) -> TaskRecord:
        """Record what blocks the work; with `suspend` the session is suspended live."""
        fields = {"step": step, "entry": entry, "tried": tried, "suspend": suspend}
        return await self._change("block", why=why, needs=needs, **fields)

    async def unblock(self, how: str | None = None) -> TaskRecord:
        """Record that nothing blocks the work any more, and how that came; resume a suspended session."""
        return await self._change("unblock", how=how)

    async def done(
        self,
        number: str,
        *,
        timeout: float = VERIFY_SECONDS,
        junit: str | None = None,
        busy_wait: float | None = None,
    ) -> TaskVerdict:
        """Mark a step as done, if its verification passes, and the test report that it writes."""
        body = given(number=number, timeout=timeout, junit=junit, busy_wait=busy_wait)
        return insight_values.verdict(await self._tell("done", body))

    async def attempt(self, number: str, entry: str) -> TaskVerdict:
        """Record a command that was run in the session as an attempt at a step."""
        return insight_values.verdict(await self._tell("attempt", {"number": number, "entry": entry}))

    async def checkpoint(
        self, label: str | None = None, *, resume_at: str | None = None, kind: SnapshotKind = "live"
    ) -> AsyncSnapshot:
        """Capture the session together with the record, at one instant."""
        body = given(label=label, resume_at=resume_at, kind=kind)
        return AsyncSnapshot(self._transport, await self._tell("checkpoint", body))

    async def handoff(self, budget: int = DEFAULT_BUDGET) -> str:
        """Return what a successor needs, in at most `budget` tokens."""
        return insight_values.text(await self._look("handoff", budget=budget))

    async def resume(self) -> TaskResumed:
        """Bring the session to where the task can be continued, and return where it stands."""
        return insight_values.resumed(await self._tell("resume", None))

    async def export(self) -> str:
        """Return the record as Markdown with fixed sections, which `import_` takes."""
        return insight_values.text(await self._look("markdown"))

    async def import_(self, text: str, *, replace: bool = False) -> TaskRecord:
        """Take over a record from Markdown or JSON, in place of the present one."""
        return await self._change("import", text=text, replace=replace or None)

    async def _change(self, verb: str, **fields: Any) -> TaskRecord:
        return insight_values.record(await self._tell(verb, given(**fields)))

    async def _look(self, *what: str, **params: Any) -> Any:
        call = HttpCall("GET", place("sessions", self._session, "task", *what), params)
        return await self._transport.ask(call)

    async def _tell(self, verb: str, body: dict[str, Any] | None) -> Any:
        call = HttpCall("POST", place("sessions", self._session, "task", verb), body=body)
        return await self._transport.ask(call)


class AsyncArtifacts:
    """What sessions have registered as artifacts, as `HomeArtifacts` has it."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, session: str | None = None) -> list[KeptArtifact]:
        """Return all artifacts, or only a session's (its name or id), oldest first."""
        told = await self._transport.ask(self._call("GET", session=session))
        return [insight_values.artifact(each) for each in client_values.tables(told)]

    async def find(self, name: str, session: str | None = None) -> KeptArtifact:
        """Return the artifact of a name; `session` is a name or id, also of a removed session."""
        call = self._call("GET", "entry", name=name, session=session)
        return insight_values.artifact(await self._transport.ask(call))

    async def parts(self, name: str, session: str | None = None) -> AsyncIterator[bytes]:
        """Yield the content of an artifact as it comes."""
        call = self._call("GET", "content", name=name, session=session)
        async with self._transport.bytes_of(call, {}) as body:
            async for part in body:
                yield part

    async def save(self, name: str, to: Path | str, *, session: str | None = None) -> Path:
        """Save an artifact as a file, or into a folder, and return its path."""
        found = await self.find(name, session)
        with SavedArtifact(found, to) as file:
            async for part in self.parts(name, found.session_id):
                file.write(part)
        return file.place

    async def remove(self, name: str, session: str | None = None) -> KeptArtifact:
        """Remove an artifact, and return what it was."""
        call = self._call("DELETE", name=name, session=session)
        return insight_values.artifact(await self._transport.ask(call))

    def _call(self, method: str, *what: str, **params: Any) -> HttpCall:
        return HttpCall(method, place("artifacts", *what), given(**params))
