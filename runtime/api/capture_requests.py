"""Serves capture requests of programs in a session: takes the snapshots, and replies to the programs.

One thread keeps the connection that requests come over, through every capture that cuts it; another takes the
snapshots, one after the other, and runs the caller's callbacks. Requests are validated, and the number of
snapshots is bounded.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import GuestDisconnected, HoldfastError, ProtocolError, QuotaExceeded
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.snapshots.failure import Failure

if TYPE_CHECKING:
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.guest_rpc.guest_client import Connection
    from holdfast.runtime.guest_rpc.reconnect import Reconnection
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

MOST = 100
"""The most snapshots taken while serving, by default."""
MOST_REQUESTS = 10_000
"""The most requests while serving; a session that sends more is not served any longer."""
LABEL, REASON, COMMAND, REFERENCE, MESSAGE = 100, 2000, 500, 700, 700
"""Characters."""
ENDING = 5.0
"""The longest time a supervisor can take to hang up after it was notified of the end."""
BEGINNING = 60.0
"""The longest time it can take to confirm that it is served; a capture can be in progress."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A capture request as the program sent it. `failure` describes a failure, if there is one."""

    pid: int
    command: str
    label: str | None
    reason: str | None
    failure: Failure


@dataclass(frozen=True, slots=True)
class Served:
    """The outcome of a request: a snapshot and its reference, or an error. With both, the reference is not
    valid.
    """

    asked: Asked
    snapshot: Snapshot | None
    reference: str
    error: HoldfastError | None = None


class Serving:
    """Serves one session until it is stopped or the session ends. Then `over` is set, and `error` says why.

    Args:
        line: the channel to the session.
        take: takes the snapshot.
        reference: returns where a snapshot is or will be kept, for the program; by default its id. If it
            fails, the error is recorded and the program gets the id.
        on_captured: called with the outcome of each request, after the program got its reply.
        limit: the most snapshots to take.
    """

    def __init__(
        self,
        line: SessionChannel,
        take: Callable[[Asked], Snapshot],
        reference: Callable[[Snapshot], str] | None = None,
        on_captured: Callable[[Served], None] | None = None,
        limit: int = MOST,
    ) -> None:
        self.served: list[Served] = []
        self.error: Exception | None = None
        self.over = threading.Event()
        self._line = line
        self._take = take
        self._reference = reference or (lambda snapshot: snapshot.id)
        self._on_captured = on_captured or (lambda _served: None)
        self._limit = limit
        self._requests: queue.SimpleQueue[tuple[int, Asked] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._opened: Connection | None = None
        """The same before the supervisor has sent anything over it."""
        self._unheard: list[dict[str, Any]] = []
        """Messages that were sent, and can have been lost with a connection."""
        self._holding = 0
        self._asked = 0
        self._stopping = False
        self._ready = threading.Event()
        self._hearing = threading.Thread(
            target=self._guarded, args=(self._hear,), name="holdfast-captures", daemon=True
        )
        self._working = threading.Thread(
            target=self._guarded, args=(self._work,), name="holdfast-capturing", daemon=True
        )

    def start(self) -> None:
        """Start serving, and return when programs can send requests.

        Raises:
            SessionError, GuestError: the session cannot be served.
        """
        self._hearing.start()
        self._working.start()
        served = self._ready.wait(BEGINNING)
        if self.error is not None:
            raise self.error
        if not served:
            raise GuestDisconnected("cannot serve captures: the session does not answer")

    def stop(self) -> None:
        """Stop after the capture in progress; programs that still wait are notified."""
        self._stopping = True
        self._requests.put(None)
        self._working.join()
        self._hearing.join(ENDING)
        with self._lock:
            if self._opened is not None:
                self._opened.hang_up()
        self._hearing.join()

    # The connection.

    def _hear(self) -> None:
        reconnection = self._line.reconnection()
        reconnection.run(lambda: self._attempt(reconnection))

    def _attempt(self, reconnection: Reconnection) -> None:
        if self._stopping and not self._working.is_alive():
            return
        with self._line.client().open("captures", holding=self._holding) as connection:
            with self._lock:
                self._opened = connection
            try:
                for frame in connection.events():
                    self._heard(connection, frame)
            finally:
                reconnection.heard()  # however long there were no requests
                with self._lock:
                    self._connection = self._opened = None

    def _heard(self, connection: Connection, frame: Frame) -> None:
        match wire_fields.event(frame):
            case "serving":
                with self._lock:
                    self._connection = connection
                    unheard = list(self._unheard)
                for head in unheard:
                    connection.send(head)
                self._ready.set()
            case "request":
                self._holding = wire_fields.integer(frame, "number", least=1)
                self._asked += 1
                if self._asked > MOST_REQUESTS:
                    raise ProtocolError(
                        "cannot serve captures any longer: the session sends too many requests"
                    )
                self._requests.put((self._holding, asked(wire_fields.body(frame))))
            case "answered":
                number = wire_fields.integer(frame, "number", least=1)
                with self._lock:
                    self._unheard = [head for head in self._unheard if head.get("number") != number]

    def _say(self, op: str, **fields: Any) -> None:
        """Send a message to the supervisor, at the latest when there is a connection again."""
        head = {"op": op, **fields}
        with self._lock:
            self._unheard.append(head)
            connection = self._connection
        if connection is not None:
            with suppress(GuestDisconnected):
                connection.send(head)

    # The snapshots.

    def _work(self) -> None:
        try:
            while (given := self._requests.get()) is not None and not self._stopping:
                number, wanted = given
                served = self._serve(wanted)
                self.served.append(served)
                if served.snapshot is not None:
                    fields = {"snapshot": served.snapshot.id, "reference": plain(served.reference, REFERENCE)}
                    self._say("captured", number=number, **fields)
                elif served.error is not None:
                    self._say("failed", number=number, **why(served.error))
                self._on_captured(served)
        finally:
            self._say("end")

    def _serve(self, wanted: Asked) -> Served:
        if sum(one.snapshot is not None for one in self.served) >= self._limit:
            many = f"programs of this session have already requested {self._limit} snapshots"
            return Served(wanted, None, "", QuotaExceeded(f"cannot capture it: {many}"))
        try:
            taken = self._take(wanted)
        except HoldfastError as error:
            return Served(wanted, None, "", error)
        try:
            return Served(wanted, taken, self._reference(taken))
        except HoldfastError as error:
            return Served(wanted, taken, taken.id, error)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - of another thread, which reports it as `error`
            self.error = self.error or error
        finally:
            self.over.set()
            self._ready.set()
            self._requests.put(None)


@contextmanager
def serving(served: Serving) -> Iterator[Serving]:
    """Serve while the block runs.

    Raises:
        SessionError, GuestError: the session cannot be served.
    """
    try:
        served.start()
        yield served
    finally:
        served.stop()


def asked(fields: Mapping[str, Any]) -> Asked:
    """Parse a program's request; invalid parts are left out. Pure."""
    pid = fields.get("pid")
    command, reason = _text(fields, "command", COMMAND) or "", _text(fields, "reason", REASON)
    given = fields.get("failure")
    failure = Failure.parse({"command": command, **given}) if isinstance(given, dict) else None
    return Asked(
        pid if isinstance(pid, int) and 0 < pid < 1 << 22 else 0,
        command,
        _text(fields, "label", LABEL),
        reason,
        failure or Failure(reason="asked", command=command, message=reason or ""),
    )


def _text(fields: Mapping[str, Any], key: str, limit: int) -> str | None:
    value = fields.get(key)
    return plain(value, limit) or None if isinstance(value, str) else None


def why(error: HoldfastError) -> dict[str, str]:
    """Describe an error for the program that sent the request. Pure."""
    fields = {"code": error.code, "message": str(error)[:MESSAGE], "hint": error.hint[:MESSAGE]}
    return {key: value for key, value in fields.items() if value}
