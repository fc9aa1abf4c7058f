"""Moving a session: most of it is sent while it runs, then it is paused once, and continues on the other
machine.

    snapshot → sent → suspended → the rest sent → judged there → started there → removed here

It stays suspended here until the other machine says that it runs. A move that fails before that lets it
continue here. From the moment the other machine has permission to start it, only its answer decides:
without one the session stays suspended and marked, and the next `move` asks again. So it never runs twice.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base import ids, locks, polling
from holdfast.base.interrupts import held
from holdfast.base.value_classes import as_table
from holdfast.errors import HoldfastError, InvalidArgument, MoveFailed, OutcomeUnknown, SessionError
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import teardown
from holdfast.runtime.moving import move_wire, travelling_identity
from holdfast.runtime.moving.move_wire import Refused, SessionThere, WireBroken
from holdfast.runtime.moving.receiver_channel import ReceiverAddress, ReceiverChannel, ReceiverDestination
from holdfast.runtime.moving.travelling_identity import travelling_options
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.restore import resume_session
from holdfast.runtime.sessions import health, session_identity
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.transfer import push_pull
from holdfast.runtime.transfer.bundle_series import BundleSeries
from holdfast.runtime.transfer.send import send
from holdfast.runtime.transfer.transfer_options import SendOptions

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.row_details import OperationDetails
    from holdfast.runtime.store.rows import OperationRow, OperationState, SessionRow, SnapshotRow
    from holdfast.snapshots.registry.http_client import HttpClient

ASKING = 60.0
"""Seconds in which a receiver is asked again for a session that it was about to start."""
_PAUSE = 3.0


@dataclass(frozen=True, slots=True)
class Moved:
    """A session that runs on another machine now.

    `session_id` is its id, there as here. It was paused for `paused` seconds; `bytes` is the sent amount,
    `rest` the part of it that was sent during the pause. `deviations` list the differences there from the
    captured state, `warnings` further facts for its user.
    """

    name: str
    to: str
    session_id: str
    paused: float
    bytes: int
    rest: int
    deviations: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        told = as_table(self, "session_id")
        return {**told, "id": self.session_id, "paused": round(self.paused, 3)}


def move(
    context: Context,
    session: SessionRow,
    address: ReceiverAddress,
    options: SendOptions,
    through: Callable[[], HttpClient] | None = None,
) -> Moved:
    """Move a session; `through` returns the way to a registry for the bytes, which both machines reach.

    Raises:
        MoveFailed: the other machine cannot be reached, or refused.
        OutcomeUnknown: the connection was lost permanently when it was about to start the session.
        InvalidArgument: the session cannot run elsewhere.
        SessionError, SnapshotError, StoreError, EngineError: it is where it was.
    """
    with locks.exclusive(context.home.locks, f"move-{session.id}", f"move session {session.name}"):
        session = context.store.session(session.id)
        moving = session.details.moving
        if moving is not None and moving.attempt is not None and moving.to != address.host:
            session_identity.refuse_while_moving(session, "move")
        if session.state != "suspended":
            health.check(context, session.id)
        moved = _Moving(context, session, address, options, through).move()
        session_identity.hand_over(context.store, session.id, address.host, moved.result.session_id)
        teardown.remove(context, session.id)
        for snapshot in moved.brought:
            with suppress(HoldfastError):  # one that something needs stays
                snapshot_storage.remove_snapshot(context, snapshot)
        locks.discard(context.home.locks, f"move-{session.id}")
    return moved.result


@undoes(OperationKind.MOVE)
def undo_move(context: Context, operation: OperationRow) -> OperationState:
    """Let a session that the move suspended continue, unless it could be running on the other machine."""
    session = context.store.find_session(operation.session_id)
    moving = session and session.details.moving
    if session is not None and not (moving and moving.attempt):
        session_identity.clear_mark(context, session)
        if session.state == "suspended" and operation.details.suspends:
            with suppress(HoldfastError):  # it stays suspended then, and `resume` says why
                resume_session.resume(context, session)
    for snapshot_id in operation.details.snapshot_ids:
        found = context.store.find_snapshot(snapshot_id)
        if found is not None:
            with suppress(HoldfastError):
                snapshot_storage.remove_snapshot(context, found)
    return "failed"


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A finished move, and the snapshots that only it needed."""

    result: Moved
    brought: tuple[SnapshotRow, ...]


class _Moving:
    def __init__(
        self,
        context: Context,
        session: SessionRow,
        address: ReceiverAddress,
        options: SendOptions,
        through: Callable[[], HttpClient] | None,
    ) -> None:
        self._context = context
        self._session = session
        self._address = address
        self._send = options
        self._through = through
        self._options = travelling_options(session.name, session.options)
        self._identity = travelling_identity.of(context.store, session)
        self._source = socket.gethostname()
        self._sent: list[int] = []
        self._warnings: list[str] = []
        self._brought: list[SnapshotRow] = []
        self._series = BundleSeries()

    def move(self) -> _Outcome:
        earlier = self._session.details.moving
        with self._failing(), self._series, ReceiverChannel(self._address) as receiver:
            self._prepare(receiver, earlier.attempt if earlier else None)
            there = self._find(receiver, earlier.attempt) if earlier and earlier.attempt else None
            paused = 0.0
            if there is None:
                session_identity.clear_mark(self._context, self._session)
                there, paused = self._bring(receiver)
            else:
                self._brought += self._suspended_in()
        result = Moved(
            self._session.name,
            self._address.host,
            there.id,
            paused,
            sum(self._sent),
            self._sent[-1] if self._sent else 0,
            there.deviations,
            (*dict.fromkeys(self._warnings), *self._renamed(there), *there.hooks),
        )
        host_events.note(
            self._context, self._session.id, "moved", to=self._address.host, into=result.session_id
        )
        return _Outcome(result, tuple(self._brought))

    def _renamed(self, there: SessionThere) -> tuple[str, ...]:
        """Return a warning if the session has a different id there."""
        if there.id == self._session.id:
            return ()
        return (f"its id is {there.id} there: Holdfast at {self._address.host} is older and gave it another",)

    def _prepare(self, receiver: ReceiverChannel, attempt: str | None) -> None:
        context = self._context
        assert self._send.sign is not None, "a moving session is signed"
        receiver.ask(
            "prepare",
            name=self._session.name,
            key=self._send.sign.public,
            actor=context.actor,
            reason=context.reason,
            options=self._options,
            attempt=attempt,
            identity=self._identity,
        )

    def _bring(self, receiver: ReceiverChannel) -> tuple[SessionThere, float]:
        """Send the session and have it started.

        Return the receiver's report, and the seconds it was paused.
        """
        context, running = self._context, self._session.state != "suspended"
        with carry_out(context, OperationKind.MOVE, session_id=self._session.id) as operation:
            if running:
                details = self._ahead(receiver, operation).plus(suspends=True)
                context.store.operations.update(operation.id, details=details)
            began = time.monotonic()
            if running:
                snapshot_service.suspend(context, context.store.session(self._session.id), settle=False)
            session_identity.mark_suspended(context, self._session, self._address.host)
            (last,) = self._suspended_in()
            bundle = self._bring_over(receiver, last)
            with held():
                there = self._start(receiver, bundle)
                context.store.operations.end(operation.id, "done")
            self._brought.append(last)
            return there, time.monotonic() - began

    def _ahead(self, receiver: ReceiverChannel, operation: OperationRow) -> OperationDetails:
        """Send the session's present state, while it runs; return the details of the operation since then."""
        context, session = self._context, self._session
        reason = f"to move it to {self._address.host}"
        first = snapshot_service.take(context, session, None, "live", reason, settle=False)
        known = operation.details.plus(snapshot_ids=[first.id])
        context.store.operations.update(operation.id, details=known)
        self._brought.append(first)
        self._bring_over(receiver, first)
        return known

    def _bring_over(self, receiver: ReceiverChannel, snapshot: SnapshotRow) -> str:
        """Send a snapshot, and have it imported there; return the digest of its bundle."""
        if self._through is None:
            destination = ReceiverDestination(receiver, self._source)
            sent = send(self._context, snapshot, destination, self._send, self._series)
            if not destination.kept:
                self._series.close()
            if not destination.stacks:
                self._series.layers = ()
            self._sent.append(sent.sent)
            self._warnings += sent.warnings
            return sent.digest
        wire = self._through()
        pushed = push_pull.push(self._context, snapshot, wire, self._send, self._series)
        self._series.close()  # what stays in a registry must be whole for every reader
        self._sent.append(pushed.sent)
        self._warnings += pushed.warnings
        receiver.ask(
            "fetch",
            reference=pushed.pinned,
            bundle=pushed.digest,
            plain_http=wire.plain_http,
        )
        return pushed.digest

    def _start(self, receiver: ReceiverChannel, bundle: str) -> SessionThere:
        """Have the session started there, once."""
        session, host = self._session, self._address.host
        attempt = ids.new_id()
        session_identity.mark_may_run_there(self._context, session, host, attempt)
        try:
            started = receiver.ask(
                "start",
                attempt=attempt,
                bundle=bundle,
                name=session.name,
                source=self._source,
                policy=session.details.policy or {},
                identity=self._identity,
            )
            return move_wire.session_there(started)
        except Refused:
            self._still_here()
            raise
        except WireBroken as error:
            found = polling.until(lambda: self._ask_again(attempt), ASKING, _PAUSE)
            if found is None:
                raise self._unknown(str(error)) from error
            (there,) = found
            if there is None:
                self._still_here()
                raise
            return there

    def _ask_again(self, attempt: str) -> tuple[SessionThere | None] | None:
        """Ask the receiver for the session over another connection; return its answer, None without one."""
        with suppress(MoveFailed, Refused, WireBroken), ReceiverChannel(self._address) as receiver:
            self._prepare(receiver, attempt)
            return (self._find(receiver, attempt),)
        return None

    def _find(self, receiver: ReceiverChannel, attempt: str) -> SessionThere | None:
        """Return the receiver's report of a session that it has possibly started; None if it never did.

        Raises:
            OutcomeUnknown: it has been removed there, or is still being started.
            WireBroken: it does not say.
        """
        found = receiver.ask("find", attempt=attempt, name=self._session.name)
        state = move_wire.state_of(found)
        if state == "absent":
            return None
        if state in ("removed", "creating"):
            raise self._unknown(
                f"on that machine it is {'gone again' if state == 'removed' else 'being started'}"
            )
        return move_wire.session_there(found)

    def _still_here(self) -> None:
        session_identity.clear_mark(self._context, self._context.store.session(self._session.id))

    def _suspended_in(self) -> list[SnapshotRow]:
        """Return the snapshot that the session is suspended in."""
        session = self._context.store.session(self._session.id)
        found = self._context.store.find_snapshot(session.parent_snapshot_id)
        if session.state != "suspended" or found is None:
            raise SessionError(f"cannot move session {session.name}: it was continued in the meantime")
        return [found]

    def _unknown(self, why: str) -> OutcomeUnknown:
        name, host = self._session.name, self._address.host
        return OutcomeUnknown(
            f"cannot tell whether {name} runs at {host} now: {why}",
            hint=f"it stays suspended here; `holdfast move {name} {host}` asks again; if it does not run "
            f"there, `holdfast resume {name} --here`",
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Name in all failures the session, its destination, and its present place."""
        name, host = self._session.name, self._address.host
        try:
            yield
        except (Refused, WireBroken) as error:
            hint = error.hint if isinstance(error, Refused) else ""
            raise self._placed(MoveFailed(f"cannot move {name} to {host}: {error}", hint=hint)) from error
        except (OutcomeUnknown, InvalidArgument):
            raise
        except HoldfastError as error:
            raise self._placed(error) from error.__cause__

    def _placed(self, error: HoldfastError) -> HoldfastError:
        row = self._context.store.find_session(self._session.id)
        if row is not None:
            here = {
                "running": "it continues here",
                "suspended": f"it is suspended here: `holdfast resume {row.name}`",
            }
            error.hint = "; ".join(filter(None, [error.hint, here.get(row.state, "")]))
        return error
