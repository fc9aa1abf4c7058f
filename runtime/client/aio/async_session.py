"""Sessions over a URL: how each begins, changes and ends, its state, history and ports.

The values of reports are loaded by those calls that return them: most programs use few.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.base.delegation import delegate
from holdfast.base.value_classes import as_table
from holdfast.errors import PortClosed, SessionNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_insight import PORT_SECONDS, SessionInsight
from holdfast.runtime.api.session_network import SessionNetwork
from holdfast.runtime.api.session_ports import SessionPorts
from holdfast.runtime.api.session_sharing import SessionSharing
from holdfast.runtime.api.session_shells import SessionShell
from holdfast.runtime.api.session_snapshots import SessionSnapshots
from holdfast.runtime.client import bound_methods, client_values
from holdfast.runtime.client.aio.async_commands import (
    AsyncJob,
    AsyncKernel,
    AsyncKernels,
    AsyncPrograms,
    AsyncShell,
    AsyncShells,
    AsyncTerminal,
)
from holdfast.runtime.client.aio.async_files import AsyncFiles
from holdfast.runtime.client.aio.async_git import AsyncGit
from holdfast.runtime.client.aio.async_handle import AsyncSessionPart, requesting
from holdfast.runtime.client.aio.async_local import spawn
from holdfast.runtime.client.aio.async_snapshot import AsyncSnapshot
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.bound_methods import Route, asking, each, like, nothing
from holdfast.runtime.client.channel_calls import EventsCall
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.shell_report import ShellInfo
from holdfast.runtime.store import policy as policies
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.policy import Policy

if TYPE_CHECKING:
    from holdfast.runtime.access.shared_links import SharedLink
    from holdfast.runtime.client.aio.async_task import AsyncTask
    from holdfast.runtime.pulse.listening_ports import Preview
    from holdfast.runtime.pulse.pulse import Port
    from holdfast.runtime.store.entry import Entry
    from holdfast.snapshots.verification import Verification

LONGEST_LOOK = 20.0
"""Seconds that one request waits: a server that is started again is asked again."""


class AsyncInsight(AsyncSessionPart):
    """Insight into one session, as `SessionInsight` has it."""

    pulse = requesting(
        SessionInsight.pulse, Route("GET", "pulse", {"parts": "part"}), bound_methods.late("pulse")
    )
    port = requesting(SessionInsight.port, Route("GET", "ports/{number}"), bound_methods.late("port"))
    metrics = requesting(SessionInsight.metrics, Route("GET", "metrics"), each(bound_methods.late("metrics")))
    drift = requesting(SessionInsight.drift, Route("GET", "drift"), bound_methods.late("drift"))

    async def _check(self, _verb: str, _told: dict[str, Any]) -> Any:
        return bound_methods.late("survivability")(await self._ask("GET", "check", own=True))

    async def _wait_port(self, _verb: str, told: dict[str, Any]) -> Port:
        from holdfast.runtime.client import insight_values

        waiting = Patience.of(told.get("patience", PORT_SECONDS))
        waiting.begin()
        while True:
            try:
                path = ("ports", str(told["number"]), "wait")
                found = await self._transport.ask(self._call("GET", *path, patience=LONGEST_LOOK), waiting)
                return insight_values.port(found)
            except PortClosed:
                if waiting.over:
                    raise

    async def _journal(self, _verb: str, told: dict[str, Any]) -> list[Entry]:
        from holdfast.runtime.client import insight_values

        kinds = told.pop("kinds", None)
        if kinds is not None and not kinds:
            return []  # an empty list cannot be sent as a parameter
        found = await self._ask("GET", "journal", kind=kinds, **told)
        return [insight_values.entry(each) for each in client_values.tables(found)]

    journal = asking(SessionInsight.journal, _journal)
    wait_port = asking(SessionInsight.wait_port, _wait_port)
    check = asking(SessionSnapshots.check, _check)


class AsyncNetwork(AsyncSessionPart):
    """The part of `SessionNetwork` in a session's class, where changes return the session."""

    network = requesting(SessionNetwork.network, Route("GET", "network"), bound_methods.late("reach"))

    async def _changed(self, _verb: str, told: dict[str, Any]) -> Self:
        await self._ask("PATCH", "network", body=told)
        return self

    async def _listed(self, field: str, told: dict[str, Any]) -> Self:
        return await self._changed(field, {field: [each for given in told.values() for each in given]})

    change_network = asking(SessionNetwork.change_network, _changed)
    allow = asking(SessionNetwork.allow, _listed)
    disallow = asking(SessionNetwork.disallow, _listed)
    allow_domains = asking(SessionNetwork.allow_domains, _listed, "domains")
    disallow_domains = asking(SessionNetwork.disallow_domains, _listed, "no_domains")


class AsyncPorts(AsyncSessionPart):
    """The ports of one session, as `SessionPorts` has them: a part of its class."""

    async def _linked(self, _verb: str, told: dict[str, Any]) -> Preview:
        from holdfast.runtime.client import insight_values

        port = str(told.pop("port"))
        if "seconds" in told:
            told["seconds"] = int(told["seconds"])
        return insight_values.preview(await self._ask("POST", "ports", port, "preview", body=told))

    ports = requesting(SessionPorts.ports, Route("GET", "ports"), each(bound_methods.late("listening_port")))
    preview = asking(SessionPorts.preview, _linked)
    revoke_preview = requesting(SessionPorts.revoke_preview, Route("DELETE", "ports/{port}/preview"), nothing)


class AsyncSharing(AsyncSessionPart):
    """The shared links of one session, as `SessionSharing` has them: a part of its class."""

    async def _shared(self, _verb: str, told: dict[str, Any]) -> SharedLink:
        from holdfast.runtime.client import insight_values

        if "seconds" in told:
            told["seconds"] = int(told["seconds"])
        return insight_values.shared_link(await self._ask("POST", "links", body=told))

    share = asking(SessionSharing.share, _shared)
    shares = requesting(SessionSharing.shares, Route("GET", "links"), each(bound_methods.late("shared_link")))
    revoke_share = requesting(
        SessionSharing.revoke_share, Route("DELETE", "links/{link}"), bound_methods.late("shared_link")
    )


class AsyncSession(AsyncInsight, AsyncPorts, AsyncSharing, AsyncNetwork, AsyncShell):
    """One session, as `Session` is. Attributes are as of the last answer.

    Used as a context manager, it is removed at the end if it was made with `new(remove=True)`.
    """

    def __init__(self, transport: AsyncTransport, told: Any, *, remove: bool = False) -> None:
        self._told = client_values.table(told)
        self._remove = remove
        super().__init__(transport, str(self._told["id"]))

    spawn = spawn

    @cached_property
    @like(Session.kernel)
    def kernel(self) -> AsyncKernel:
        return AsyncKernel(self._transport, self.id)

    @cached_property
    @like(Session.kernels)
    def kernels(self) -> AsyncKernels:
        return AsyncKernels(self._transport, self.id)

    @cached_property
    @like(Session.files)
    def files(self) -> AsyncFiles:
        return AsyncFiles(self._transport, self.id)

    @cached_property
    @like(Session.git)
    def git(self) -> AsyncGit:
        return AsyncGit(self._transport, self.id)

    @cached_property
    @like(Session.shells)
    def shells(self) -> AsyncShells:
        return AsyncShells(self._transport, self.id)

    @cached_property
    @like(Session.programs)
    def programs(self) -> AsyncPrograms:
        return AsyncPrograms(self._transport, self.id)

    @cached_property
    @like(Session.task)
    def task(self) -> AsyncTask:
        from holdfast.runtime.client.aio.async_task import AsyncTask  # few programs use it

        return AsyncTask(self._transport, self.id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave the session as it is, or remove it if it was made for that (`new(remove=True)`)."""
        if self._remove:
            with suppress(SessionNotFound):  # it is gone already
                await self.remove()

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.id} {self.state}>"

    @property
    @like(Session.id)
    def id(self) -> str:
        return str(self._told["id"])

    @property
    @like(Session.name)
    def name(self) -> str:
        return str(self._told["name"])

    @property
    @like(Session.state)
    def state(self) -> str:
        return str(self._told["state"])

    @property
    @like(Session.image)
    def image(self) -> str:
        return str(self._told["image"])

    @property
    @like(Session.created_at)
    def created_at(self) -> datetime:
        return client_values.moment(self._told["created_at"])

    @property
    @like(Session.parent_snapshot_id)
    def parent_snapshot_id(self) -> str | None:
        found = self._told["parent_snapshot_id"]
        return None if found is None else str(found)

    @property
    @like(Session.verification)
    def verification(self) -> Verification | None:
        from holdfast.runtime.client import insight_values

        return insight_values.verification(self._told["verification"])

    @property
    @like(Session.labels)
    def labels(self) -> dict[str, str]:
        return dict(client_values.table(self._told.get("labels") or {}))

    async def _became(self, verb: str, told: dict[str, Any]) -> Self:
        self._told = client_values.table(await self._ask("POST", verb, body=told))
        return self

    async def _labelled(self, _verb: str, told: dict[str, Any]) -> Self:
        from holdfast.runtime.sessions import session_labels

        labels = session_labels.parse(told["labels"])
        self._told = client_values.table(await self._ask("PUT", "labels", body={"labels": labels}))
        return self

    async def _lifetime(self, _verb: str, told: dict[str, Any]) -> Lifetime:
        self._told = client_values.table(await self._ask("PATCH", "lifetime", body=told.get("choices", {})))
        return Lifetime.kept(self._told["lifetime"] or {})

    @like(Session.as_dict)
    def as_dict(self) -> dict[str, Any]:
        return dict(self._told)

    @like(Session.refresh)
    async def refresh(self) -> Self:
        self._told = client_values.table(await self._ask("GET", removed=True))
        return self

    set_labels = asking(Session.set_labels, _labelled)
    lifetime = asking(Session.lifetime, _lifetime)
    remove = requesting(Session.remove, Route("DELETE"), nothing)

    # Shells, kernels, programs, jobs.

    @property
    @like(Session.terminal)
    def terminal(self) -> AsyncTerminal:
        return self.terminal_of(defaults.MAIN)

    @like(Session.terminal_of)
    def terminal_of(self, shell: str) -> AsyncTerminal:
        return AsyncTerminal(self._transport, self.id, shell)

    async def _shell(self, _verb: str, told: dict[str, Any]) -> ShellInfo:
        return await self.terminal_of(told.get("name", defaults.MAIN)).info()

    async def _typed(self, _verb: str, told: dict[str, Any]) -> None:
        await self.terminal_of(told.get("shell", defaults.MAIN)).send(told["text"])

    async def _detached(self, _verb: str, told: dict[str, Any]) -> AsyncJob:
        call_arguments.text(told["command"], "command")
        return self._job(await self._ask("POST", "jobs", body=told))

    async def _found_job(self, _verb: str, told: dict[str, Any]) -> AsyncJob:
        return self._job(await self._ask("GET", "jobs", told["ref"]))

    def _job(self, told: Any) -> AsyncJob:
        return AsyncJob(self._transport, self.id, client_values.job_info(told).id)

    shell = asking(Session.shell, _shell)
    send = asking(SessionShell.send, _typed)
    detach = asking(SessionShell.detach, _detached)
    jobs = requesting(SessionInsight.jobs, Route("GET", "jobs"), each(client_values.job_info))
    job = asking(SessionInsight.job, _found_job)
    cell = delegate("kernel", AsyncKernel.cell)
    run = delegate("programs", AsyncPrograms.run)

    # What happens.

    async def _events(self, _verb: str, told: dict[str, Any]) -> AsyncIterator[Event]:
        patience, kinds = told.pop("patience", None), told.pop("kinds", None)
        args = {"follow": False, **told, "kind": kinds}
        call = EventsCall(self.id, "events", args, patience=patience)
        async for _ in self._transport.heard(call):
            while call.found:
                yield call.found.popleft()

    events = asking(SessionInsight.events, _events)

    # Captures.

    async def _captured(self, place: str, told: dict[str, Any]) -> AsyncSnapshot:
        return AsyncSnapshot(self._transport, await self._ask("POST", place, body=told))

    async def _forked(self, _verb: str, told: dict[str, Any]) -> list[AsyncSession]:
        found = client_values.tables(await self._ask("POST", "fork", body=told))
        return [AsyncSession(self._transport, each) for each in found]

    async def _policy(self, _verb: str, told: dict[str, Any]) -> Policy:
        found = await self._ask("PATCH", "policy", body=told.get("changes", {}))
        return policies.parse(client_values.table(found))

    snapshot = asking(SessionSnapshots.snapshot, _captured, "snapshots")
    template = asking(SessionSnapshots.template, _captured)
    fork = asking(SessionSnapshots.fork, _forked)
    suspend = asking(SessionSnapshots.suspend, _became)
    resume = asking(SessionSnapshots.resume, _became)
    policy = asking(SessionSnapshots.policy, _policy)

    @like(SessionSnapshots.rewind)
    async def rewind(
        self,
        snapshot: AsyncSnapshot | str,
        *,
        keep: str | None = None,
        discard: bool = False,
        force: bool = False,
        reason: str | None = None,
    ) -> AsyncRewound:
        ref = snapshot if isinstance(snapshot, str) else snapshot.id
        body = given(snapshot=ref, keep=keep, discard=discard, force=force, reason=reason)
        told = client_values.table(await self._ask("POST", "rewind", body=body))
        await self.refresh()
        kept = None if told["kept"] is None else await self._snapshot(str(told["kept"]))
        return AsyncRewound(
            self,
            await self._snapshot(str(told["snapshot"])),
            kept,
            int(told["left_behind"]),
            int(told["lost"]),
            tuple(map(str, told["deviations"])),
        )

    async def _snapshot(self, ref: str) -> AsyncSnapshot:
        call = HttpCall("GET", place("snapshots", ref))
        return AsyncSnapshot(self._transport, await self._transport.ask(call))


@dataclass(frozen=True, slots=True)
class AsyncRewound:
    """A session that went back to `snapshot`, as `Rewound` is."""

    session: AsyncSession
    snapshot: AsyncSnapshot
    kept: AsyncSnapshot | None
    left_behind: int
    lost: int
    deviations: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        told = self.session.as_dict()
        return {
            **as_table(self, "session", "snapshot", "kept"),
            **{name: told[name] for name in ("id", "name", "generation")},
            "snapshot": self.snapshot.id,
            "kept": self.kept.id if self.kept else None,
        }
