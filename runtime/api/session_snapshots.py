"""Snapshots of a session, as its handle offers them: check, capture, fork, suspend, resume, rewind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.base.value_classes import as_table
from holdfast.runtime.api.snapshot import Snapshot, check_forks

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from holdfast.runtime.api.capture_requests import Asked, Served, Serving
    from holdfast.runtime.api.option_types import PolicyOptions
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.moving.move_session import Moved
    from holdfast.runtime.store.policy import Policy
    from holdfast.runtime.store.rows import SessionRow, SnapshotKind
    from holdfast.snapshots.failure import Failure
    from holdfast.snapshots.survivability import Survivability


@dataclass(frozen=True, slots=True)
class Rewound:
    """A session that was rewound to `snapshot`.

    `kept` is the snapshot of its state before, if that was captured. `left_behind` counts the commands, cells
    and inputs since `snapshot`; `lost` those after `kept`, which are in no snapshot. `deviations` say what
    differs, such as the address.
    """

    session: Session
    snapshot: Snapshot
    kept: Snapshot | None
    left_behind: int
    lost: int
    deviations: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {
            **as_table(self, "session", "snapshot", "kept"),
            "id": self.session.id,
            "name": self.session.name,
            "generation": self.session.row.generation,
            "snapshot": self.snapshot.id,
            "kept": self.kept.id if self.kept else None,
        }


class SessionSnapshots:
    """The captures of one session. `became` is called with its new row after a change."""

    def __init__(self, line: SessionChannel, became: Callable[[SessionRow], Session]) -> None:
        self._line = line
        self._context = line.context
        self._became = became

    def snapshot(
        self,
        label: str | None = None,
        kind: SnapshotKind = "live",
        *,
        reason: str | None = None,
        force_drop: Sequence[str] = (),
        failure: Failure | None = None,
    ) -> Snapshot:
        """Capture the session at one instant; it continues.

        Args:
            label: a name for the snapshot; must be free.
            kind: `live` (files, memory, processes) or `filesystem` (files only).
            reason: why, for people who read the tree later.
            force_drop: obstacles, by the names that `check` gives them. `pid:N`: the process and its
                descendants are ended in the session before; `fd:N/M`: that descriptor is not connected in
                copies.
            failure: the failure that is the reason, if there was one; it travels with the snapshot.

        Raises:
            LiveUnsupported: a live snapshot is not possible; nothing was taken. `findings` has the
                obstacles.
            InvalidArgument: `force_drop` names something that is not an obstacle.
            CaptureFailed, SessionBusy, SessionDead: nothing was taken.
        """
        self._settle()
        from holdfast.runtime.capture import snapshot_service

        row = snapshot_service.take(self._context, self._line.row, label, kind, reason, force_drop, failure)
        return Snapshot(self._context, row)

    def template(self, name: str, *, replace: bool = False, reason: str | None = None) -> Snapshot:
        """Capture the session as a template, from which `Holdfast.new` starts sessions; it continues.

        Args:
            name: of the template; a label, which must be free.
            replace: let a template of this name be replaced.
            reason: why, for people who read the tree later.

        Raises:
            InvalidArgument: the name is taken.
            LiveUnsupported, CaptureFailed, SessionBusy, SessionDead: nothing was captured.
        """
        self._settle()
        from holdfast.runtime.capture import template_capture

        row = template_capture.make(self._context, self._line.row, name, replace=replace, reason=reason)
        return Snapshot(self._context, row)

    def check(self) -> Survivability:
        """Return the resources that survive a capture, are closed in copies, or block a capture.

        The check looks from outside and takes milliseconds; nothing in the session can notice it.

        Raises:
            SessionDead, GuestError: the session does not run or answer.
        """
        from holdfast.runtime.capture import preflight

        return preflight.report(self._context, self._line.fresh())

    def serve_captures(
        self,
        *,
        reference: Callable[[Snapshot], str] | None = None,
        on_captured: Callable[[Served], None] | None = None,
        limit: int | None = None,
        record: Callable[[Failure], Failure] = lambda given: given,
    ) -> AbstractContextManager[Serving]:
        """Take live snapshots on request of programs in the session, while the block runs.

        A program calls `holdfast_session.capture()` or `holdfast-capture`, and continues when it has received
        the snapshot and its reference. Requests are served one after the other. Both callbacks are called in
        a thread of their own.

        Args:
            reference: returns where a snapshot is or will be kept, for the program; by default its id.
            on_captured: called with the outcome of each request, after the program got its reply.
            limit: the most snapshots to take, 100 by default.
            record: makes the failure record to store from the one a program gives.

        Raises:
            SessionBusy: another caller serves the session.
            SessionError, GuestError: the session does not run or answer.
        """
        from holdfast.runtime.api import capture_requests as inside

        def take(asked: Asked) -> Snapshot:
            return self.snapshot(asked.label, reason=asked.reason, failure=record(asked.failure))

        most = inside.MOST if limit is None else limit
        return inside.serving(inside.Serving(self._line, take, reference, on_captured, most))

    def fork(
        self,
        n: int = 1,
        name: str | None = None,
        *,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        eager: bool = False,
    ) -> list[Session]:
        """Make n sessions that continue from this instant; this one also continues. Makes all of them or
        none.

        `network`, `allow`, `deny` and `eager` are as for `Snapshot.fork`.
        """
        check_forks(n)
        taken = self.snapshot()
        try:
            return taken.fork(n, name, network=network, allow=allow, deny=deny, eager=eager)
        except BaseException:
            # The snapshot was only taken for the forks.
            taken.remove()
            raise

    def suspend(self) -> Session:
        """Capture the session, then free its memory and processors until `resume`."""
        self._settle()
        from holdfast.runtime.capture import snapshot_service

        return self._became(snapshot_service.suspend(self._context, self._line.fresh()))

    def rewind(
        self,
        snapshot: Snapshot | str,
        *,
        keep: str | None = None,
        discard: bool = False,
        force: bool = False,
        reason: str | None = None,
    ) -> Rewound:
        """Go back to a snapshot in place: id, name and network address stay, whatever state the session is
        in.

        Its present state is captured first, as an automatic snapshot, so that nothing is lost.

        Args:
            snapshot: of this session's past: a handle, a label or id, or `@-1` for the last one.
            keep: the label under which to keep the present.
            discard: do not capture the present; state that is in no snapshot is lost.
            force: allow a snapshot of another lineage.
            reason: why, for the journal.

        Raises:
            InvalidArgument: the snapshot is not of this session's lineage.
            SnapshotDamaged, RestoreFailed, CaptureFailed, LiveUnsupported: the session continues unchanged.
        """
        from holdfast.runtime.history.lineage import family
        from holdfast.runtime.restore import rewind as rewinding

        self._settle()
        context, session = self._context, self._line.row
        if isinstance(snapshot, str):
            meant = family.relative(snapshot, session, context.store.snapshots())
            snapshot = Snapshot(context, meant or context.store.snapshot(snapshot))
        options = rewinding.RewindOptions(keep, discard, force, reason)
        found = rewinding.rewind(context, session, snapshot.row, options)
        kept = Snapshot(context, found.kept) if found.kept else None
        now = self._became(found.session)
        return Rewound(now, snapshot, kept, found.left_behind, found.lost, found.deviations)

    def policy(self, /, **changes: Unpack[PolicyOptions]) -> Policy:
        """Return when the session is captured automatically and how long these snapshots are kept, after
        changes.

        Args:
            changes: fields of `Policy`; durations and sizes can be texts (`10m`, `2g`), None is the
                default. Without any, nothing is changed.

        Raises:
            InvalidArgument: one of them is not valid.
        """
        from holdfast.runtime.store import policy

        row = self._context.session_row(self._line.known.id)
        found = policy.Policy.of(row.details)
        if changes:
            found = policy.parse({**found.as_dict(), **changes})
            self._context.store.keep_details(row.id, policy=found.as_dict() or None)
            self._line.follow(found)
        return found

    def _settle(self) -> None:
        """Wait for a capture in the background, so that it does not block the next one."""
        self._context.background.settle()

    def resume(self, *, here: bool = False) -> Session:
        """Resume a suspended session, or start a dead one again on its files.

        A session is dead when its container has ended, with the machine for example. Its files are there
        until it is removed: the same container starts again, with another shell and kernel. The next result
        has the event `restarted`.

        Args:
            here: even if a move was cut short that may have started it on another machine.

        Raises:
            OutcomeUnknown: it possibly runs on the machine that it was being moved to.
            SessionError: it is neither suspended nor dead.
            SessionDead: its container was removed.
        """
        from holdfast.runtime.restore import resume_session

        return self._became(resume_session.resume(self._context, self._line.row, here=here))

    def move(
        self,
        to: str,
        *,
        remote_command: str = "holdfast",
        through: str | None = None,
        plain_http: bool = False,
        key: str | None = None,
        passphrase: str | None = None,
        secrets: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Moved:
        """Move the session to a different machine over ssh, and remove it here.

        Most of it is sent while it runs. It is paused while the rest is sent and started there, and
        continues under its name. If that fails, it continues here.

        Args:
            to: `[USER@]HOST`, or `ssh://[USER@]HOST:PORT`.
            remote_command: how `holdfast` is called there.
            through: a reference in a registry, which both machines reach, for the bytes.
            plain_http: use that registry without TLS.
            key: the name of the key to sign with, which the other machine must trust; as for
                `Snapshot.export`.
            passphrase: of the key, if it has one.
            secrets: for those found in memory and files: `warn`, `refuse` or `ignore`.
            progress: called with the bytes done, and the total, of each of the two transfers.

        Raises:
            MoveFailed: the other machine cannot be reached, or refused.
            OutcomeUnknown: the connection was lost when it was about to start the session. It stays suspended
                here, and another `move` asks again.
            InvalidArgument, LiveUnsupported, CaptureFailed, SessionError: it is where it was.
        """
        self._settle()
        from holdfast.runtime.api.bundles import transferring
        from holdfast.runtime.moving import move_session
        from holdfast.runtime.moving.receiver_channel import ReceiverAddress
        from holdfast.runtime.transfer import push_pull
        from holdfast.runtime.transfer.transfer_options import SendOptions, quiet
        from holdfast.snapshots.registry.reference import Reference

        address = ReceiverAddress.parse(to, remote_command)
        wire = None
        if through is not None:
            Reference.parse(through)
            wire = partial(push_pull.registry_wire, through, plain_http=plain_http)
        row = self._line.row
        with transferring(self._context, f"moving {row.name}", progress or quiet) as told:
            options = SendOptions.signed(
                self._context.home,
                (key, passphrase),
                ((), None),
                compression="zstd",
                secrets=secrets,
                progress=told,
            )
            return move_session.move(self._context, row, address, options, wire)
