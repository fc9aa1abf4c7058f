"""A handle on one session: its shell, its kernel, its snapshots.

It holds no state that matters: any number of handles, in any process, can refer to one session.
"""

from __future__ import annotations

import contextlib
import time
from functools import cached_property

from holdfast.base.delegation import late
from holdfast.errors import SessionNotFound
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.sessions import health

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Any, Unpack

    from holdfast.runtime.api.option_types import LifetimeOptions
    from holdfast.runtime.api.running_program import SessionPrograms
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.api.session_git import SessionGit
    from holdfast.runtime.api.session_insight import SessionInsight
    from holdfast.runtime.api.session_kernels import SessionKernel, SessionKernels
    from holdfast.runtime.api.session_network import SessionNetwork
    from holdfast.runtime.api.session_ports import SessionPorts
    from holdfast.runtime.api.session_sharing import SessionSharing
    from holdfast.runtime.api.session_shells import SessionShell, SessionShells
    from holdfast.runtime.api.session_snapshots import SessionSnapshots
    from holdfast.runtime.api.session_task import SessionTask
    from holdfast.runtime.api.spawn import SessionSpawning
    from holdfast.runtime.api.terminal_handle import SessionTerminal
    from holdfast.runtime.guest_rpc.shell_report import ShellInfo
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.lifetime import Lifetime
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.snapshots.verification import Verification


# Loaded when one of their methods is used: a command line needs one of them, or none.


def _programs() -> type[SessionPrograms]:
    from holdfast.runtime.api.running_program import SessionPrograms

    return SessionPrograms


def _shell() -> type[SessionShell]:
    from holdfast.runtime.api.session_shells import SessionShell

    return SessionShell


def _insight() -> type[SessionInsight]:
    from holdfast.runtime.api.session_insight import SessionInsight

    return SessionInsight


def _ports() -> type[SessionPorts]:
    from holdfast.runtime.api.session_ports import SessionPorts

    return SessionPorts


def _sharing() -> type[SessionSharing]:
    from holdfast.runtime.api.session_sharing import SessionSharing

    return SessionSharing


def _kernel() -> type[SessionKernel]:
    from holdfast.runtime.api.session_kernels import SessionKernel

    return SessionKernel


def _kernels() -> type[SessionKernels]:
    from holdfast.runtime.api.session_kernels import SessionKernels

    return SessionKernels


def _shells() -> type[SessionShells]:
    from holdfast.runtime.api.session_shells import SessionShells

    return SessionShells


def _snapshots() -> type[SessionSnapshots]:
    from holdfast.runtime.api.session_snapshots import SessionSnapshots

    return SessionSnapshots


def _network() -> type[SessionNetwork]:
    from holdfast.runtime.api.session_network import SessionNetwork

    return SessionNetwork


def _files() -> type[SessionFiles]:
    from holdfast.runtime.api.session_files import SessionFiles

    return SessionFiles


def _git() -> type[SessionGit]:
    from holdfast.runtime.api.session_git import SessionGit

    return SessionGit


def _spawning() -> type[SessionSpawning]:
    from holdfast.runtime.api.spawn import SessionSpawning

    return SessionSpawning


def _task() -> type[SessionTask]:
    from holdfast.runtime.api.session_task import SessionTask

    return SessionTask


class _HeldRow:
    """The row that a handle and its channel share: without it they would refer to each other, and stay until
    the collector runs, for which a server under load would wait with all that its calls have left."""

    __slots__ = ("row",)

    def __init__(self, row: SessionRow) -> None:
        self.row = row

    def get(self) -> SessionRow:
        return self.row

    def take(self, row: SessionRow) -> None:
        self.row = row


class Session:
    """One session. Attributes are as of the last call that updated them; `refresh` updates them now.

    Used as a context manager, it is removed at the end if it was made with `new(remove=True)`.
    """

    def __init__(self, context: Context, row: SessionRow, *, remove: bool = False) -> None:
        self._context = context
        self._remove = remove
        self._held = _HeldRow(row)
        self._line = SessionChannel(context, self._held.get, self._held.take)

    @cached_property
    def kernel(self) -> SessionKernel:
        """The calls of its kernels: cells, interrupts, restarts."""
        return _kernel()(self._line)

    @cached_property
    def kernels(self) -> SessionKernels:
        """The session's kernels."""
        return _kernels()(self._line)

    @cached_property
    def files(self) -> SessionFiles:
        """The session's files."""
        return _files()(self._line)

    @cached_property
    def git(self) -> SessionGit:
        """The session's Git repositories."""
        return _git()(self._line)

    @cached_property
    def shells(self) -> SessionShells:
        """The session's shells."""
        return _shells()(self._line)

    @cached_property
    def programs(self) -> SessionPrograms:
        """Programs that run outside its shell."""
        return _programs()(self._line)

    @cached_property
    def task(self) -> SessionTask:
        """The session's task record: goal, plan, progress and decisions."""
        return _task()(self, self._line)

    @cached_property
    def _shell(self) -> SessionShell:
        return _shell()(self._line)

    @cached_property
    def _insight(self) -> SessionInsight:
        return _insight()(self._line)

    @cached_property
    def _ports(self) -> SessionPorts:
        return _ports()(self._line)

    @cached_property
    def _sharing(self) -> SessionSharing:
        return _sharing()(self._line)

    @cached_property
    def _captures(self) -> SessionSnapshots:
        return _snapshots()(self._line, self._became)

    @cached_property
    def _egress(self) -> SessionNetwork:
        return _network()(self._line, self._became)

    run = late("programs", lambda: _programs().run)
    exec = late("_shell", lambda: _shell().exec)
    check_syntax = late("_shell", lambda: _shell().check_syntax)
    join = late("_shell", lambda: _shell().join)
    send = late("_shell", lambda: _shell().send)
    answer = late("_shell", lambda: _shell().answer)
    interrupt = late("_shell", lambda: _shell().interrupt)
    detach = late("_shell", lambda: _shell().detach)
    spawn = late(lambda session: _spawning()(session), lambda: _spawning().spawn)
    jobs = late("_insight", lambda: _insight().jobs)
    job = late("_insight", lambda: _insight().job)
    cell = late("kernel", lambda: _kernel().cell)

    pulse = late("_insight", lambda: _insight().pulse)
    port = late("_insight", lambda: _insight().port)
    wait_port = late("_insight", lambda: _insight().wait_port)
    ports = late("_ports", lambda: _ports().ports)
    preview = late("_ports", lambda: _ports().preview)
    revoke_preview = late("_ports", lambda: _ports().revoke_preview)
    share = late("_sharing", lambda: _sharing().share)
    shares = late("_sharing", lambda: _sharing().shares)
    revoke_share = late("_sharing", lambda: _sharing().revoke_share)
    events = late("_insight", lambda: _insight().events)
    journal = late("_insight", lambda: _insight().journal)
    metrics = late("_insight", lambda: _insight().metrics)
    drift = late("_insight", lambda: _insight().drift)

    snapshot = late("_captures", lambda: _snapshots().snapshot)
    template = late("_captures", lambda: _snapshots().template)
    check = late("_captures", lambda: _snapshots().check)
    fork = late("_captures", lambda: _snapshots().fork)
    suspend = late("_captures", lambda: _snapshots().suspend)
    resume = late("_captures", lambda: _snapshots().resume)
    rewind = late("_captures", lambda: _snapshots().rewind)
    move = late("_captures", lambda: _snapshots().move)
    policy = late("_captures", lambda: _snapshots().policy)
    serve_captures = late("_captures", lambda: _snapshots().serve_captures)

    network = late("_egress", lambda: _network().network)
    change_network = late("_egress", lambda: _network().change_network)
    allow = late("_egress", lambda: _network().allow)
    disallow = late("_egress", lambda: _network().disallow)
    allow_domains = late("_egress", lambda: _network().allow_domains)
    disallow_domains = late("_egress", lambda: _network().disallow_domains)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave the session as it is, or remove it if it was made for that (`new(remove=True)`)."""
        if self._remove:
            with contextlib.suppress(SessionNotFound):  # it is gone already
                self.remove()

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """12 hex digits."""
        return self._row.id

    @property
    def name(self) -> str:
        """Unique among existing sessions."""
        return self._row.name

    @property
    def state(self) -> str:
        """`running`, `suspended`, `dead`, `creating` or `removed`; `paused` if a program other than Holdfast
        has paused it (`docker pause`), `frozen` if one has frozen its control group.
        """
        return self._row.seen_state

    @property
    def image(self) -> str:
        """The image it was made from."""
        return self._row.image_name

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return self._row.created_at

    @property
    def parent_snapshot_id(self) -> str | None:
        """The snapshot it was restored from, if any."""
        return self._row.parent_snapshot_id

    @property
    def verification(self) -> Verification | None:
        """The verification of its last restore; None if its processes were never restored."""
        from holdfast.runtime.verification import verification_result

        return verification_result.of(self._row)

    @property
    def labels(self) -> dict[str, str]:
        """The labels given by callers, pairs of a key and a text. A copy does not have labels."""
        return dict(self._row.details.labels)

    def lifetime(self, /, **choices: Unpack[LifetimeOptions]) -> Lifetime:
        """Return when the session ends and when it sleeps, after changes.

        A running server (`holdfast serve`) or `holdfast autosnap` carries it out. Without one the session
        stays as it is until one runs again.

        Args:
            choices: `life`: seconds from now, or a text (`30m`, `2h`), after which it ends; given again, it
                begins again. `then`: the action at its end: `suspend` (with its processes, by default) or
                `remove` (state that is not in a snapshot is lost). `idle`: the time without use after which
                it is put to sleep, which is a live suspend; the next use wakes it. None is the default: no
                end and no sleep. Without any choice, nothing is changed.

        Raises:
            InvalidArgument: one of them is not valid.
        """
        from holdfast.runtime.store import lifetime

        if choices:
            now = time.time()
            lifetime.change(self._context.store, self.id, lambda kept: lifetime.changed(kept, now, choices))
            self._row = self._context.store.find_session(self.id, removed=True) or self._row
        return lifetime.Lifetime.of(self._context.session_row(self.id).details)

    def set_labels(self, labels: Mapping[str, str] | Sequence[str]) -> Session:
        """Replace its labels: a mapping, or texts `KEY=VALUE`.

        Raises:
            InvalidArgument: one is not valid, or there are more than 50.
        """
        from holdfast.runtime.sessions import session_labels

        self._context.store.keep_details(self.id, labels=session_labels.parse(labels) or None)
        self._row = self._context.store.find_session(self.id, removed=True) or self._row
        return self

    @property
    def _row(self) -> SessionRow:
        return self._held.row

    @_row.setter
    def _row(self, row: SessionRow) -> None:
        self._held.take(row)

    @property
    def row(self) -> SessionRow:
        """The session's row in the store."""
        return self._row

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "image": self.image,
            "created_at": self.created_at.isoformat(),
            "parent_snapshot_id": self.parent_snapshot_id,
            "generation": self._row.generation,
            "verification": self._row.details.verification,
            "hooks": self._row.details.hooks,
            "labels": self.labels,
            "pool": self._row.details.pool,
            "cluster": self._row.details.get("cluster"),
            "lifetime": self._shown_lifetime(),
        }

    def _shown_lifetime(self) -> dict[str, Any] | None:
        details = self._row.details
        if "lifetime" not in details and "sandbox" not in details:
            return None  # of most, and without loading what reads one
        from holdfast.runtime.store.lifetime import Lifetime

        return Lifetime.of(details).shown(self._row.state)

    def refresh(self) -> Session:
        """Read the session's state again; a session that was removed in the meantime is `removed`."""
        with contextlib.suppress(SessionNotFound):
            if (seen := health.observed(self._context, self._row, set())).stopped:
                self._row = seen
                return self
        self._row = self._context.store.find_session(self.id, removed=True) or self._row
        return self

    # Terminals.

    @property
    def terminal(self) -> SessionTerminal:
        """The terminal of the main shell: its screen, its keys, its holder."""
        return self.terminal_of(defaults.MAIN)

    def terminal_of(self, shell: str) -> SessionTerminal:
        """Return the terminal of a shell."""
        from holdfast.runtime.api.terminal_handle import SessionTerminal

        return SessionTerminal(self._line, shell)

    def shell(self, name: str = defaults.MAIN) -> ShellInfo:
        """Return the state of a shell, as the supervisor reports it."""
        return self.terminal_of(name).info()

    def remove(self) -> None:
        """End the session and remove it; its snapshots stay."""
        from holdfast.runtime.lifecycle import teardown

        teardown.remove(self._context, self.id)

    def _became(self, row: SessionRow) -> Session:
        """Take over the session's new row."""
        self._row = row
        return self
