"""All sessions and snapshots of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from holdfast.base import actors
from holdfast.base.home import Home
from holdfast.errors import SessionNotFound, SnapshotNotFound
from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio import async_local
from holdfast.runtime.client.aio.async_session import AsyncSession
from holdfast.runtime.client.aio.async_snapshot import AsyncSnapshot
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, given, place, session_options
from holdfast.runtime.sessions import session_labels

if TYPE_CHECKING:
    from holdfast.runtime.api.option_types import NewOptions, PolicyOptions
    from holdfast.runtime.client.aio.async_task import AsyncArtifacts
    from holdfast.runtime.history.diff.diff_result import Diff
    from holdfast.runtime.operations.step import Step
    from holdfast.runtime.task.task_standing import TaskStanding
    from holdfast.runtime.task.work_report import WorkReport


class AsyncHoldfast:
    """All sessions and snapshots of a server, or of a home, as `Holdfast` has them.

    Args:
        url: of the server, `http://…`, `https://…` or `unix:///…`; or a home, by default that of this
            process, for which it starts a server of its own.
        token: by default that of HOLDFAST_TOKEN, else the one in the home if the server is on this machine.
        actor: who uses it, for the journal; by default that of HOLDFAST_ACTOR, else `agent`.
        on_step: is called with each `Step` of an operation of the server as it begins, and with None at the
            end.

    Raises:
        InvalidArgument: the URL or the actor is not valid, or there is no token.
    """

    def __init__(
        self,
        url: str | Path | Home | None = None,
        *,
        token: str | None = None,
        actor: str | None = None,
        on_step: Callable[[Step | None], None] | None = None,
    ) -> None:
        address, self._end = async_local.opened(url, token)
        self._transport = AsyncTransport(address, {"Holdfast-Actor": actors.checked(actor)}, on_step)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Sessions and what runs in them continue."""
        await self._transport.close()
        self._end()

    async def new(
        self,
        name: str | None = None,
        *,
        remove: bool = False,
        policy: Mapping[str, Any] | PolicyOptions | None = None,
        template: str | None = None,
        warm: bool = False,
        labels: Mapping[str, str] | Sequence[str] | None = None,
        life: float | str | None = None,
        then: str | None = None,
        idle: float | str | None = None,
        **options: Unpack[NewOptions],
    ) -> AsyncSession:
        """Create a session and wait until its shell can be used. As `Holdfast.new`."""
        chosen = session_options(options)
        kept = None if labels is None else session_labels.parse(labels)
        chosen |= {"life": life, "then": then, "idle": idle}
        body = given(name=name, policy=policy, template=template, warm=warm, labels=kept, **chosen)
        told = await self._transport.ask(HttpCall("POST", place("sessions"), body=body))
        return AsyncSession(self._transport, told, remove=remove)

    async def sessions(
        self, *, labels: Mapping[str, str | None] | Sequence[str] | None = None
    ) -> list[AsyncSession]:
        """Return all sessions, oldest first; with `labels` only those that have all of these."""
        wanted = session_labels.wanted(labels).items()
        asked = [key if value is None else f"{key}={value}" for key, value in wanted]
        told = await self._transport.ask(HttpCall("GET", place("sessions"), {"label": asked or None}))
        return [AsyncSession(self._transport, each) for each in client_values.tables(told)]

    async def session(self, ref: str, *, removed: bool = False) -> AsyncSession:
        """Return the session with this name, id or unique prefix of an id; `removed` as for `Holdfast`."""
        params = {"removed": True} if removed else {}
        told = await self._transport.ask(HttpCall("GET", place("sessions", ref), params))
        return AsyncSession(self._transport, told)

    async def board(self) -> list[TaskStanding]:
        """Return where the tasks of all sessions stand; sessions without a task are left out."""
        from holdfast.runtime.client import insight_values

        told = await self._transport.ask(HttpCall("GET", place("board")))
        return [insight_values.standing(each) for each in client_values.tables(told)]

    async def report(self, since: datetime) -> WorkReport:
        """Return the work on tasks since a time: the steps, their actors, and how they were verified."""
        from holdfast.runtime.client import insight_values

        call = HttpCall("GET", place("report"), {"since": since.astimezone(UTC).isoformat()})
        return insight_values.work_report(await self._transport.ask(call))

    @property
    def artifacts(self) -> AsyncArtifacts:
        """The artifacts that sessions have registered, also removed sessions."""
        from holdfast.runtime.client.aio.async_task import AsyncArtifacts

        return AsyncArtifacts(self._transport)

    async def remove_session(self, ref: str) -> None:
        """End a session and remove it; its snapshots stay."""
        await self._transport.ask(HttpCall("DELETE", place("sessions", ref)))

    async def snapshots(self) -> list[AsyncSnapshot]:
        """Return all complete snapshots, oldest first."""
        told = await self._transport.ask(HttpCall("GET", place("snapshots")))
        return [AsyncSnapshot(self._transport, each) for each in client_values.tables(told)]

    async def snapshot(self, ref: str) -> AsyncSnapshot:
        """Return the snapshot with this label, id or unique prefix of an id."""
        told = await self._transport.ask(HttpCall("GET", place("snapshots", ref)))
        return AsyncSnapshot(self._transport, told)

    async def diff(self, before: str, after: str, *, everything: bool = False) -> Diff:
        """Compare two snapshots, of any sessions and branches."""
        from holdfast.runtime.client import insight_values

        params = {"before": before, "after": after, "everything": everything}
        return insight_values.diff(
            await self._transport.ask(HttpCall("GET", place("snapshots", "diff"), params))
        )

    async def remove_snapshot(self, ref: str) -> None:
        """Delete a snapshot."""
        await self._transport.ask(HttpCall("DELETE", place("snapshots", ref)))

    async def remove_snapshots(self, *refs: str) -> list[AsyncSnapshot]:
        """Delete snapshots, one after the other once all are found; return them."""
        found = {each.id: each for each in [await self.snapshot(ref) for ref in refs]}
        for each in found.values():
            await each.remove()
        return list(found.values())

    async def fork(
        self,
        ref: str,
        n: int = 1,
        name: str | None = None,
        *,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        eager: bool = False,
    ) -> list[AsyncSession]:
        """Fork the session or snapshot that `ref` refers to."""
        try:
            source: AsyncSession | AsyncSnapshot = await self.session(ref)
        except SessionNotFound as missing:
            try:
                source = await self.snapshot(ref)
            except SnapshotNotFound:
                text = str(missing).replace("session", "session or snapshot", 1)
                raise SessionNotFound(text, hint=missing.hint) from None
        return await source.fork(n, name, network=network, allow=allow, deny=deny, eager=eager)
