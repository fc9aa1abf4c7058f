"""What can be done with the moments of a session: check, capture, fork, suspend, resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.store.rows import SessionRow, SnapshotKind

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from holdfast.runtime.api.capture_requests import Asked, Served, Serving
    from holdfast.runtime.api.rewind_result import Rewound
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.session_channel import Line
    from holdfast.runtime.store.policy import Policy
    from holdfast.snapshots.failure import Failure
    from holdfast.snapshots.survivability import Survivability


class SessionSnapshots:
    """Captures one session, and brings it back. `became` is told its row when that changed."""

    def __init__(self, line: Line, became: Callable[[SessionRow], Session]) -> None:
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
        """Capture the session at one instant; it runs on.

        Args:
            label: a name for the snapshot; must be free.
            kind: `live` (files, memory, processes) or `filesystem` (files only).
            reason: why, for people who look at the tree later.
            force_drop: what blocks, by the names `check` gives it. `pid:N`: the process and its descendants
                are ended in the session before; `fd:N/M`: that descriptor leads nowhere in copies.
            failure: what failed, if that is why; it travels with the snapshot.

        Raises:
            LiveUnsupported: live is not possible; nothing was taken. `findings` says what is in the way.
            InvalidArgument: `force_drop` names what does not block.
            CaptureFailed, SessionBusy, SessionDead: nothing was taken.
        """
        self._settle()
        from holdfast.runtime.capture import snapshot_service

        row = snapshot_service.take(self._context, self._line.row, label, kind, reason, force_drop, failure)
        return Snapshot(self._context, row)

    def check(self) -> Survivability:
        """What would survive a capture, what copies would find closed, and what is in the way of one.

        It is a look from outside that takes milliseconds; nothing in the session can notice.

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
        """While the block runs, take live snapshots when programs in the session ask for it.

        A program asks by `holdfast_session.capture()` or `holdfast-capture`, and goes on when it is told the
        snapshot and its reference. Several are served one after the other. Both functions are called in a
        thread of their own.

        Args:
            reference: where a snapshot is or will be kept, for who asked; by default its id.
            on_captured: is called with what came of each request, after the program was told.
            limit: snapshots to take at most, 100 if left out.
            record: makes the failure record that is kept of the one a program gives.

        Raises:
            SessionBusy: somebody else serves.
            SessionError, GuestError: the session does not run or answer.
        """
        from holdfast.runtime.api import capture_requests as inside

        def take(asked: Asked) -> Snapshot:
            return self.snapshot(asked.label, reason=asked.reason, failure=record(asked.failure))

        most = inside.MOST if limit is None else limit
        return inside.serving(inside.Serving(self._line, take, reference, on_captured, most))

    def fork(
        self, n: int = 1, name: str | None = None, *, network: str | None = None, allow: Sequence[str] = ()
    ) -> list[Session]:
        """Make n sessions that go on from this moment; this one runs on, too. All of them or none.

        `network` and `allow` are as for `Snapshot.restore`.
        """
        taken = self.snapshot()
        try:
            return taken.fork(n, name, network=network, allow=allow)
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
        """Go back to a snapshot in place: id, name and network address stay, whatever state it is in.

        What it holds now is captured first, as an automatic snapshot; so nothing is lost.

        Args:
            snapshot: of this session's past: a handle, a label or id, or `@-1` for the last one.
            keep: the label under which to keep the present.
            discard: do not capture the present; what is in no snapshot is lost.
            force: also to a snapshot of another lineage.
            reason: why, for the journal.

        Raises:
            InvalidArgument: the snapshot is not of this session's lineage.
            SnapshotDamaged, RestoreFailed, CaptureFailed, LiveUnsupported: the session continues as it was.
        """
        from holdfast.runtime.api.rewind_result import Rewound
        from holdfast.runtime.history.lineage import family
        from holdfast.runtime.restore.rewind import rewind as rewinding

        self._settle()
        context, session = self._context, self._line.row
        if isinstance(snapshot, str):
            meant = family.relative(snapshot, session, context.store.snapshots())
            snapshot = Snapshot(context, meant or context.store.snapshot(snapshot))
        wish = rewinding.Wish(keep, discard, force, reason)
        found = rewinding.rewind(context, session, snapshot.row, wish)
        kept = Snapshot(context, found.kept) if found.kept else None
        now = self._became(found.session)
        return Rewound(now, snapshot, kept, found.left_behind, found.lost, found.deviations)

    def policy(self, /, **changes: Any) -> Policy:
        """When the session is captured by itself and how long these snapshots are kept, after changes.

        Args:
            changes: of the fields of `Policy`; times and sizes may be texts (`10m`, `2g`), None is the
                default. Without any, nothing is changed.

        Raises:
            InvalidArgument: one of them cannot be.
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
        """A capture that goes on in the background is not in the way of another."""
        self._context.background.settle()

    def resume(self) -> Session:
        """Let a suspended session go on."""
        from holdfast.runtime.restore import restore_service

        return self._became(restore_service.resume(self._context, self._line.row))
