"""Sessions over a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from holdfast.base.delegation import delegate
from holdfast.base.value_classes import as_table
from holdfast.errors import SessionNotFound
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio import async_programs
from holdfast.runtime.client.aio.async_files import AsyncFiles
from holdfast.runtime.client.aio.async_insight import AsyncInsight, AsyncNetwork
from holdfast.runtime.client.aio.async_kernel import AsyncKernel, AsyncKernels
from holdfast.runtime.client.aio.async_local import spawn
from holdfast.runtime.client.aio.async_ports import AsyncPorts
from holdfast.runtime.client.aio.async_programs import AsyncJob, AsyncPrograms
from holdfast.runtime.client.aio.async_shell import AsyncShell, AsyncShells, AsyncTerminal
from holdfast.runtime.client.aio.async_snapshot import AsyncSnapshot
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.channel_calls import EventsCall
from holdfast.runtime.client.client_errors import missing, not_over_a_url
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.shell_report import ShellInfo
from holdfast.runtime.store import policy as policies
from holdfast.runtime.store.policy import Policy

if TYPE_CHECKING:
    from holdfast.runtime.api.option_types import PolicyOptions
    from holdfast.runtime.client.aio.async_task import AsyncTask
    from holdfast.runtime.store.rows import SnapshotKind
    from holdfast.snapshots.verification import Verification


class AsyncSession(AsyncNetwork, AsyncShell):
    """One session, as `Session` is. Attributes are as of the last answer.

    Used as a context manager, it is removed at the end if it was made with `new(remove=True)`.
    """

    def __init__(self, transport: AsyncTransport, told: Any, *, remove: bool = False) -> None:
        self._told = client_values.table(told)
        self._remove = remove
        super().__init__(transport, str(self._told["id"]))

    spawn = spawn

    @cached_property
    def kernel(self) -> AsyncKernel:
        """The calls of its kernels: cells, interrupts, restarts."""
        return AsyncKernel(self._transport, self.id)

    @cached_property
    def kernels(self) -> AsyncKernels:
        """Its kernels."""
        return AsyncKernels(self._transport, self.id)

    @cached_property
    def files(self) -> AsyncFiles:
        """Its files."""
        return AsyncFiles(self._transport, self.id)

    @cached_property
    def _insight(self) -> AsyncInsight:
        return AsyncInsight(self._transport, self.id)

    @cached_property
    def _ports(self) -> AsyncPorts:
        return AsyncPorts(self._transport, self.id)

    @cached_property
    def shells(self) -> AsyncShells:
        """Its shells."""
        return AsyncShells(self._transport, self.id)

    @cached_property
    def programs(self) -> AsyncPrograms:
        """Programs that run outside its shell."""
        return AsyncPrograms(self._transport, self.id)

    @cached_property
    def task(self) -> AsyncTask:
        """The session's task record: goal, plan, progress and decisions."""
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    @property
    def id(self) -> str:
        """12 hex digits."""
        return str(self._told["id"])

    @property
    def name(self) -> str:
        """Unique among existing sessions."""
        return str(self._told["name"])

    @property
    def state(self) -> str:
        """`running`, `suspended`, `dead`, `creating` or `removed`."""
        return str(self._told["state"])

    @property
    def image(self) -> str:
        """The image it was made from."""
        return str(self._told["image"])

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return client_values.moment(self._told["created_at"])

    @property
    def parent_snapshot_id(self) -> str | None:
        """The snapshot it was restored from, if any."""
        found = self._told["parent_snapshot_id"]
        return None if found is None else str(found)

    @property
    def verification(self) -> Verification | None:
        """The verification of its last restore; None if its processes were never restored."""
        from holdfast.runtime.client import insight_values

        return insight_values.verification(self._told["verification"])

    @property
    def labels(self) -> dict[str, str]:
        """The labels that callers gave it, pairs of a key and a text. A copy has no labels."""
        return dict(client_values.table(self._told.get("labels") or {}))

    async def set_labels(self, labels: Mapping[str, str] | Sequence[str]) -> Self:
        """Replace its labels: a mapping, or texts `KEY=VALUE`."""
        from holdfast.runtime.sessions import session_labels

        kept = session_labels.parse(labels)
        self._told = client_values.table(await self._tell("PUT", "labels", body={"labels": kept}))
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return dict(self._told)

    async def refresh(self) -> Self:
        """Ask for the session again; one that was removed meanwhile is `removed`."""
        call = HttpCall("GET", place("sessions", self.id), {"removed": True})
        self._told = client_values.table(await self._transport.ask(call))
        return self

    async def remove(self) -> None:
        """End the session and remove it; its snapshots stay."""
        await self._tell("DELETE")

    # Shells, kernels, programs, jobs.

    @property
    def terminal(self) -> AsyncTerminal:
        """The terminal of the main shell: its screen, its keys, its holder."""
        return self.terminal_of(defaults.MAIN)

    def terminal_of(self, shell: str) -> AsyncTerminal:
        """Return the terminal of a shell."""
        return AsyncTerminal(self._transport, self.id, shell)

    async def shell(self, name: str = defaults.MAIN) -> ShellInfo:
        """Return what the supervisor reports of a shell."""
        return await self.terminal_of(name).info()

    async def send(self, text: str | bytes, *, shell: str = defaults.MAIN) -> None:
        """Type text into the terminal, as it is."""
        await self.terminal_of(shell).send(text)

    pulse = delegate("_insight", AsyncInsight.pulse)
    port = delegate("_insight", AsyncInsight.port)
    wait_port = delegate("_insight", AsyncInsight.wait_port)
    ports = delegate("_ports", AsyncPorts.ports)
    preview = delegate("_ports", AsyncPorts.preview)
    revoke_preview = delegate("_ports", AsyncPorts.revoke_preview)
    journal = delegate("_insight", AsyncInsight.journal)
    drift = delegate("_insight", AsyncInsight.drift)
    check = delegate("_insight", AsyncInsight.check)
    cell = delegate("kernel", AsyncKernel.cell)
    run = delegate("programs", AsyncPrograms.run)

    async def detach(
        self,
        command: str,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        lease_wait: float | None = None,
        user: str | None = None,
        rows: int | None = None,
        cols: int | None = None,
        apart: bool = False,
    ) -> AsyncJob:
        """Start a command outside the shell, on a terminal of its own, where it continues by itself."""
        return await async_programs.started(
            self._transport,
            self.id,
            command,
            name=name,
            env=env,
            cwd=cwd,
            lease_wait=lease_wait,
            user=user,
            rows=rows,
            cols=cols,
            apart=apart,
        )

    async def jobs(self) -> list[JobInfo]:
        """Return all jobs that the session knows, oldest first."""
        return await async_programs.listed(self._transport, self.id)

    async def job(self, ref: str) -> AsyncJob:
        """Return the job of that id or name."""
        told = await self._tell("GET", "jobs", ref)
        return AsyncJob(self._transport, self.id, client_values.job_info(told).id)

    # What happens.

    async def events(
        self,
        after: int = 0,
        *,
        follow: bool = False,
        kinds: Collection[str] | None = None,
        patience: Patience | None = None,
    ) -> AsyncIterator[Event]:
        """Yield what happened in the session, oldest first; with `follow` also what will."""
        args = {"after": after, "follow": follow, "kind": None if kinds is None else list(kinds)}
        call = EventsCall(self.id, "events", args, patience=patience)
        async for _ in self._transport.heard(call):
            while call.found:
                yield call.found.popleft()

    # Captures.

    async def snapshot(
        self,
        label: str | None = None,
        kind: SnapshotKind = "live",
        *,
        reason: str | None = None,
        force_drop: Sequence[str] = (),
    ) -> AsyncSnapshot:
        """Capture the session at one instant; it continues."""
        body = given(label=label, kind=kind, reason=reason, force_drop=list(force_drop))
        return AsyncSnapshot(self._transport, await self._tell("POST", "snapshots", body=body))

    async def template(self, name: str, *, replace: bool = False, reason: str | None = None) -> AsyncSnapshot:
        """Capture the session as a template, from which `new` starts sessions; it continues."""
        body = given(name=name, replace=replace, reason=reason)
        return AsyncSnapshot(self._transport, await self._tell("POST", "template", body=body))

    async def fork(
        self,
        n: int = 1,
        name: str | None = None,
        *,
        network: str | None = None,
        allow: Sequence[str] = (),
        eager: bool = False,
    ) -> list[AsyncSession]:
        """Make n sessions that continue from this instant; this one also continues. All of them or none."""
        body = given(n=n, name=name, network=network, allow=list(allow), eager=eager)
        told = client_values.tables(await self._tell("POST", "fork", body=body))
        return [AsyncSession(self._transport, each) for each in told]

    async def suspend(self) -> Self:
        """Capture the session, then free its memory and processors until `resume`."""
        self._told = client_values.table(await self._tell("POST", "suspend"))
        return self

    async def resume(self, *, here: bool = False) -> Self:
        """Resume it. One whose move is not settled is resumed in process only (`here`)."""
        if here:
            raise not_over_a_url("here")
        self._told = client_values.table(await self._tell("POST", "resume"))
        return self

    async def rewind(
        self,
        snapshot: AsyncSnapshot | str,
        *,
        keep: str | None = None,
        discard: bool = False,
        force: bool = False,
        reason: str | None = None,
    ) -> AsyncRewound:
        """Go back to a snapshot in place; the present is captured first, unless it is to be discarded."""
        ref = snapshot if isinstance(snapshot, str) else snapshot.id
        body = given(snapshot=ref, keep=keep, discard=discard, force=force, reason=reason)
        told = client_values.table(await self._tell("POST", "rewind", body=body))
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

    async def policy(self, /, **changes: Unpack[PolicyOptions]) -> Policy:
        """Return when the session is captured automatically, after changes."""
        return policies.parse(client_values.table(await self._tell("PATCH", "policy", body=changes)))

    async def _snapshot(self, ref: str) -> AsyncSnapshot:
        return AsyncSnapshot(
            self._transport, await self._transport.ask(HttpCall("GET", place("snapshots", ref)))
        )

    async def _tell(self, method: str, *what: str, body: Mapping[str, Any] | None = None) -> Any:
        return await self._transport.ask(HttpCall(method, place("sessions", self.id, *what), body=body))


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
