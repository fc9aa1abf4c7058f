"""The task of a session, and the artifacts of a home, over a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from holdfast.runtime.api.artifact_handles import HomeArtifacts
from holdfast.runtime.api.session_task import SessionTask, TaskVerdict
from holdfast.runtime.artifacts.kept_artifact import SavedArtifact
from holdfast.runtime.client import insight_values
from holdfast.runtime.client.aio.async_handle import AsyncHandle, AsyncSessionPart, requesting
from holdfast.runtime.client.aio.async_snapshot import AsyncSnapshot
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.bound_methods import Route, asking, each, like
from holdfast.runtime.task.task_record import TaskRecord


class AsyncTask(AsyncSessionPart):
    """The task of one session, as `SessionTask` has it."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        super().__init__(transport, session, "task")

    async def _changed(self, verb: str, fields: dict[str, Any]) -> TaskRecord:
        return insight_values.record(await self._ask("POST", verb, body=fields))

    record = requesting(SessionTask.record, Route("GET"), insight_values.known_record)
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

    async def _checkpoint(self, verb: str, told: dict[str, Any]) -> AsyncSnapshot:
        return AsyncSnapshot(self._transport, await self._ask("POST", verb, body=told))

    async def _judged(self, verb: str, told: dict[str, Any]) -> TaskVerdict:
        patience = told.pop("patience", None)
        return insight_values.verdict(await self._ask("POST", verb, body=told, patience=patience))

    collect_artifacts = requesting(
        SessionTask.collect_artifacts, Route("POST", "artifacts"), insight_values.registered
    )
    orphans = requesting(SessionTask.orphans, Route("GET", "orphans"), each(insight_values.orphan))
    done = asking(SessionTask.done, _judged)
    attempt = asking(SessionTask.attempt, _judged)
    checkpoint = asking(SessionTask.checkpoint, _checkpoint)
    handoff = requesting(SessionTask.handoff, Route("GET", "handoff"), insight_values.text)
    resume = requesting(SessionTask.resume, Route("POST", "resume"), insight_values.resumed)
    export = requesting(SessionTask.export, Route("GET", "markdown"), insight_values.text)


class AsyncArtifacts(AsyncHandle):
    """The artifacts that sessions have registered, as `HomeArtifacts` has them."""

    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(transport, "artifacts")

    list = requesting(HomeArtifacts.list, Route("GET"), each(insight_values.artifact))
    find = requesting(HomeArtifacts.find, Route("GET", "entry"), insight_values.artifact)
    remove = requesting(HomeArtifacts.remove, Route("DELETE"), insight_values.artifact)

    @like(HomeArtifacts.parts)
    async def parts(self, name: str, session: str | None = None) -> AsyncIterator[bytes]:
        call = self._call("GET", "content", name=name, session=session)
        async with self._transport.bytes_of(call, {}) as body:
            async for part in body:
                yield part

    @like(HomeArtifacts.save)
    async def save(self, name: str, to: Path | str, *, session: str | None = None) -> Path:
        found = await self.find(name, session)
        with SavedArtifact(found, to) as file:
            async for part in self.parts(name, found.session_id):
                file.write(part)
        return file.place
