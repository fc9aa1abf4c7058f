# Made by setup/blocking from ../aio/async_session.py; do not edit.
"""Sessions over a URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.base.delegation import delegate
from holdfast.base.value_classes import as_table
from holdfast.errors import SessionNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_insight import SessionInsight
from holdfast.runtime.api.session_shells import SessionShell
from holdfast.runtime.api.session_snapshots import SessionSnapshots
from holdfast.runtime.client import client_values
from holdfast.runtime.client.blocking.remote_files import RemoteFiles
from holdfast.runtime.client.blocking.remote_handle import requesting
from holdfast.runtime.client.blocking.remote_insight import RemoteInsight, RemoteNetwork
from holdfast.runtime.client.blocking.remote_kernel import RemoteKernel, RemoteKernels
from holdfast.runtime.client.blocking.remote_local import spawn
from holdfast.runtime.client.blocking.remote_ports import RemotePorts
from holdfast.runtime.client.blocking.remote_programs import RemoteJob, RemotePrograms
from holdfast.runtime.client.blocking.remote_shell import RemoteShell, RemoteShells, RemoteTerminal
from holdfast.runtime.client.blocking.remote_snapshot import RemoteSnapshot
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.bound_methods import Route, asking, each, like, nothing
from holdfast.runtime.client.channel_calls import EventsCall
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.event import Event
from holdfast.runtime.guest_rpc.shell_report import ShellInfo
from holdfast.runtime.store import policy as policies
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.policy import Policy

if TYPE_CHECKING:
    from holdfast.runtime.client.blocking.remote_task import RemoteTask
    from holdfast.snapshots.verification import Verification


class RemoteSession(RemoteInsight, RemotePorts, RemoteNetwork, RemoteShell):
    """One session, as `Session` is. Attributes are as of the last answer.

    Used as a context manager, it is removed at the end if it was made with `new(remove=True)`.
    """

    def __init__(self, transport: RemoteTransport, told: Any, *, remove: bool = False) -> None:
        self._told = client_values.table(told)
        self._remove = remove
        super().__init__(transport, str(self._told["id"]))

    spawn = spawn

    @cached_property
    @like(Session.kernel)
    def kernel(self) -> RemoteKernel:
        return RemoteKernel(self._transport, self.id)

    @cached_property
    @like(Session.kernels)
    def kernels(self) -> RemoteKernels:
        return RemoteKernels(self._transport, self.id)

    @cached_property
    @like(Session.files)
    def files(self) -> RemoteFiles:
        return RemoteFiles(self._transport, self.id)

    @cached_property
    @like(Session.shells)
    def shells(self) -> RemoteShells:
        return RemoteShells(self._transport, self.id)

    @cached_property
    @like(Session.programs)
    def programs(self) -> RemotePrograms:
        return RemotePrograms(self._transport, self.id)

    @cached_property
    @like(Session.task)
    def task(self) -> RemoteTask:
        from holdfast.runtime.client.blocking.remote_task import RemoteTask  # few programs use it

        return RemoteTask(self._transport, self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave the session as it is, or remove it if it was made for that (`new(remove=True)`)."""
        if self._remove:
            with suppress(SessionNotFound):  # it is gone already
                self.remove()

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

    def _became(self, verb: str, told: dict[str, Any]) -> Self:
        self._told = client_values.table(self._ask("POST", verb, body=told))
        return self

    def _labelled(self, _verb: str, told: dict[str, Any]) -> Self:
        from holdfast.runtime.sessions import session_labels

        labels = session_labels.parse(told["labels"])
        self._told = client_values.table(self._ask("PUT", "labels", body={"labels": labels}))
        return self

    def _lifetime(self, _verb: str, told: dict[str, Any]) -> Lifetime:
        self._told = client_values.table(self._ask("PATCH", "lifetime", body=told.get("choices", {})))
        return Lifetime.kept(self._told["lifetime"] or {})

    @like(Session.as_dict)
    def as_dict(self) -> dict[str, Any]:
        return dict(self._told)

    @like(Session.refresh)
    def refresh(self) -> Self:
        self._told = client_values.table(self._ask("GET", removed=True))
        return self

    set_labels = asking(Session.set_labels, _labelled)
    lifetime = asking(Session.lifetime, _lifetime)
    remove = requesting(Session.remove, Route("DELETE"), nothing)

    # Shells, kernels, programs, jobs.

    @property
    @like(Session.terminal)
    def terminal(self) -> RemoteTerminal:
        return self.terminal_of(defaults.MAIN)

    @like(Session.terminal_of)
    def terminal_of(self, shell: str) -> RemoteTerminal:
        return RemoteTerminal(self._transport, self.id, shell)

    def _shell(self, _verb: str, told: dict[str, Any]) -> ShellInfo:
        return self.terminal_of(told.get("name", defaults.MAIN)).info()

    def _typed(self, _verb: str, told: dict[str, Any]) -> None:
        self.terminal_of(told.get("shell", defaults.MAIN)).send(told["text"])

    def _detached(self, _verb: str, told: dict[str, Any]) -> RemoteJob:
        call_arguments.text(told["command"], "command")
        return self._job(self._ask("POST", "jobs", body=told))

    def _found_job(self, _verb: str, told: dict[str, Any]) -> RemoteJob:
        return self._job(self._ask("GET", "jobs", told["ref"]))

    def _job(self, told: Any) -> RemoteJob:
        return RemoteJob(self._transport, self.id, client_values.job_info(told).id)

    shell = asking(Session.shell, _shell)
    send = asking(SessionShell.send, _typed)
    detach = asking(SessionShell.detach, _detached)
    jobs = requesting(SessionInsight.jobs, Route("GET", "jobs"), each(client_values.job_info))
    job = asking(SessionInsight.job, _found_job)
    cell = delegate("kernel", RemoteKernel.cell)
    run = delegate("programs", RemotePrograms.run)

    # What happens.

    def _events(self, _verb: str, told: dict[str, Any]) -> Iterator[Event]:
        patience, kinds = told.pop("patience", None), told.pop("kinds", None)
        args = {"follow": False, **told, "kind": kinds}
        call = EventsCall(self.id, "events", args, patience=patience)
        for _ in self._transport.heard(call):
            while call.found:
                yield call.found.popleft()

    events = asking(SessionInsight.events, _events)

    # Captures.

    def _captured(self, place: str, told: dict[str, Any]) -> RemoteSnapshot:
        return RemoteSnapshot(self._transport, self._ask("POST", place, body=told))

    def _forked(self, _verb: str, told: dict[str, Any]) -> list[RemoteSession]:
        found = client_values.tables(self._ask("POST", "fork", body=told))
        return [RemoteSession(self._transport, each) for each in found]

    def _policy(self, _verb: str, told: dict[str, Any]) -> Policy:
        found = self._ask("PATCH", "policy", body=told.get("changes", {}))
        return policies.parse(client_values.table(found))

    snapshot = asking(SessionSnapshots.snapshot, _captured, "snapshots")
    template = asking(SessionSnapshots.template, _captured)
    fork = asking(SessionSnapshots.fork, _forked)
    suspend = asking(SessionSnapshots.suspend, _became)
    resume = asking(SessionSnapshots.resume, _became)
    policy = asking(SessionSnapshots.policy, _policy)

    @like(SessionSnapshots.rewind)
    def rewind(
        self,
        snapshot: RemoteSnapshot | str,
        *,
        keep: str | None = None,
        discard: bool = False,
        force: bool = False,
        reason: str | None = None,
    ) -> RemoteRewound:
        ref = snapshot if isinstance(snapshot, str) else snapshot.id
        body = given(snapshot=ref, keep=keep, discard=discard, force=force, reason=reason)
        told = client_values.table(self._ask("POST", "rewind", body=body))
        self.refresh()
        kept = None if told["kept"] is None else self._snapshot(str(told["kept"]))
        return RemoteRewound(
            self,
            self._snapshot(str(told["snapshot"])),
            kept,
            int(told["left_behind"]),
            int(told["lost"]),
            tuple(map(str, told["deviations"])),
        )

    def _snapshot(self, ref: str) -> RemoteSnapshot:
        call = HttpCall("GET", place("snapshots", ref))
        return RemoteSnapshot(self._transport, self._transport.ask(call))


@dataclass(frozen=True, slots=True)
class RemoteRewound:
    """A session that went back to `snapshot`, as `Rewound` is."""

    session: RemoteSession
    snapshot: RemoteSnapshot
    kept: RemoteSnapshot | None
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
