"""Cells of a session's kernel, followed to their end across lost connections."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from holdfast.errors import (
    CommandNotFound,
    GuestDisconnected,
    GuestError,
    InvalidArgument,
    KernelDied,
    SessionBusy,
)
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import call_arguments, call_deadline, wire_fields
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.guest_rpc.results import ENDS, CellError, CellEvent, CellResult
from holdfast.runtime.terminal.uncook import Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest.pulse.state import State
    from holdfast.runtime.guest_rpc.results import CellEventKind, CellStatus

OnEvent = Callable[[CellEvent], object]
OnInput = Callable[[str, bool], str | Awaitable[str]]
"""Returns the line; a line to be awaited is for `AsyncHoldfast`."""

# Bytes that a result keeps of a cell, from its end: of each stream, and of all displays together.
# Callers that need more receive it as it comes (`on_event`), or have it written to a file.
KEEP_TEXT = 16 << 20
KEEP_DISPLAYS = 32 << 20
KEEP_OUTPUTS = 1000
CAUSE_SECONDS = 5.0
"""For the session to say how a kernel ended."""
DISPLAYS: tuple[CellEventKind, ...] = (
    "display_data",
    "execute_result",
    "update_display_data",
    "clear_output",
)


class KernelCall:
    """One cell, from its start to its result."""

    def __init__(
        self,
        client: GuestClient,
        reconnection: Reconnection,
        code: str,
        *,
        kernel: str,
        timeout: float | None,
        on_event: OnEvent | None,
        on_input: OnInput | None,
        joined: tuple[str, int] | None = None,
        key: str | None = None,
        reason: str | None = None,
        busy_wait: float | None = None,
        patience: float | Patience | None = None,
        before: str | None = None,
    ) -> None:
        """Prepare the call. `joined` is the id of a cell that was begun, and its last known event."""
        self._client = client
        self._reconnection = reconnection
        self._payload = _payload(code)
        self._kernel = kernel
        id_ = call_arguments.id_for(key)
        timeout = call_arguments.seconds(timeout, "timeout")
        self._args: dict[str, Any] = {"id": id_, "kernel": kernel, "timeout": timeout}
        self._args |= {name: text for name, text in (("key", key), ("reason", reason)) if text is not None}
        self._operation = "cell"
        if before is not None:
            self._operation = "cell_after"
            self._args["before"] = call_arguments.text(before, "before")
        self._on_event = on_event
        self._on_input = on_input
        self._seen: int | None = None
        self._patience = Patience.of(patience)
        self._begun = joined is not None
        if joined is not None:
            self._args |= {"id": joined[0], "join": True}
            self._seen = joined[1]
            self._patience.begin()
        self._answered: set[int] = set()
        self._text = {"stdout": Tail(KEEP_TEXT), "stderr": Tail(KEEP_TEXT)}
        self._outputs: deque[tuple[CellEvent, int]] = deque()
        self._shown = 0
        self._dropped = 0
        self._error: CellError | None = None
        self._unanswered = False
        self._lost = 0
        self._recorded = False
        self._began = time.monotonic()
        busy = call_arguments.patience(busy_wait, "busy_wait") or 0.0
        self._busy_until = self._began + busy
        self._overdue = None if timeout is None else call_deadline.after(timeout + busy)
        self.on_start: Callable[[str], object] | None = None
        """Called with the cell's id when the session has taken it: a kernel possibly has to start first."""

    def run(self) -> CellResult:
        """Run the cell and wait for its end.

        An interrupt (Ctrl-C) interrupts the cell, whose end is awaited; a second one is raised immediately.

        Raises:
            KernelDied: the kernel's process ended.
        """
        try:
            return self._reconnection.run(self._follow)
        except KeyboardInterrupt:
            self._reconnection.run(self._interrupt)
            self._reconnection.run(self._follow)
            raise

    def _follow(self) -> CellResult:
        if self._patience.ended:
            return self._left()
        args = dict(self._args, accepted=True)
        if self._seen is not None:
            args["after_seq"] = self._seen
        if (left := self._busy_until - time.monotonic()) > 0:
            args["busy_wait"] = left
        with self._client.open(self._operation, self._payload, **args) as connection:
            self._patience.hold(connection)
            self._limit(connection)
            for frame in self._patient(connection.events()):
                self._reconnection.heard()
                if (result := self._hear(frame)) is not None:
                    return result
                if self._patience.over:
                    break
                self._limit(connection)
        if self._patience.over:
            return self._left()
        raise GuestDisconnected("cannot continue: the session ended the call without a result")

    def _hear(self, frame: Frame) -> CellResult | None:
        """Process an event; return the result if it is the last one awaited."""
        kind = wire_fields.event(frame)
        if kind == "finished":
            return self._finish(frame)
        if kind in ("accepted", "started"):
            self._begin()
            return None
        seq = wire_fields.integer(frame, "seq")
        if kind == "gap":
            seq += max(0, wire_fields.integer(frame, "count") - 1)
            self._lost += wire_fields.integer(frame, "size")
        if self._seen is None or seq > self._seen:
            self._seen = seq
            event = _event(kind, seq, frame)
            self._take(event, len(frame.payload))
            if event is not None and event.kind == "input_request" and self._on_input is None:
                return self._waits(event)
        return None

    def _begin(self) -> None:
        if self.on_start is not None and not self._begun:
            self.on_start(str(self._args["id"]))
        self._begun = True
        self._patience.begin()  # by other rules than it waited for the kernel

    def _limit(self, connection: Connection) -> None:
        """Limit the next wait to the next deadline."""
        ends = self._patience.until or self._overdue
        if ends is not None:
            connection.socket.settimeout(max(0.01, ends - time.monotonic()))

    def _left(self) -> CellResult:
        """Return the result for a caller that no longer waits.

        Raises:
            SessionBusy: the cell has not begun.
        """
        if self._patience.ended and not self._begun and not self._is_known():
            raise SessionBusy("cannot run the cell: the caller no longer waits for the kernel")
        return self._result("running")

    def _is_known(self) -> bool:
        """Check whether the session has begun the cell, although it could not report so."""
        try:
            with self._client.connect() as connection:
                connection.ask("cell", id=self._args["id"], kernel=self._kernel, join=True, accepted=True)
        except CommandNotFound:
            return False
        return True

    def _patient(self, events: Iterator[Frame]) -> Iterator[Frame]:
        """Raise GuestError if the session should have ended the cell by now."""
        try:
            for frame in events:
                yield frame
                call_deadline.check(self._overdue, "cell")
        except GuestDisconnected:
            call_deadline.check(self._overdue, "cell")
            if not self._patience.over:
                raise

    def _take(self, event: CellEvent | None, size: int) -> None:
        if event is None:  # an event kind of a newer guest
            return
        if event.kind == "stream":
            self._text["stderr" if event.name == "stderr" else "stdout"].feed(
                event.text.encode("utf-8", "replace")
            )
        elif event.kind == "error":
            self._error = event.error
        elif event.kind in ("display_data", "execute_result"):
            self._show(event, size)
        if self._on_event is not None:
            self._on_event(event)
        if event.kind == "input_request" and self._on_input is not None:
            self._answer(event, self._on_input)

    def _show(self, event: CellEvent, size: int) -> None:
        self._outputs.append((event, size))
        self._shown += size
        while len(self._outputs) > KEEP_OUTPUTS or self._shown > KEEP_DISPLAYS:
            _, least = self._outputs.popleft()
            self._shown -= least
            self._dropped += least

    def _answer(self, event: CellEvent, on_input: OnInput) -> None:
        """Answer the cell's question; if there is no more input, end the cell instead of hanging."""
        try:
            answer = on_input(event.text, event.password)
        except EOFError:
            self._unanswered = True
            self._interrupt()
            return
        line = call_arguments.text(answer, "line")
        self._client.request("input", payload=line.encode("utf-8", "replace"), kernel=self._kernel)

    def _interrupt(self) -> None:
        self._client.request("kernel_interrupt", kernel=self._kernel)

    def _finish(self, frame: Frame) -> CellResult:
        self._recorded = wire_fields.flag(frame, "recorded")
        status = wire_fields.choice(frame, "status", ENDS)
        if status == "died":
            raise self._death()
        if self._unanswered and status != "ok":
            raise InvalidArgument(
                "cannot answer the cell: it asked for input and there is none left",
                hint="pipe lines into `holdfast cell`",
            )
        return self._result(
            status,
            execution_count=wire_fields.optional_integer(frame, "execution_count"),
        )

    def _death(self) -> KernelDied:
        """Return the error of a kernel that ended; the session has noted the cause before it says so."""
        from holdfast.runtime.guest_rpc import event

        last = None
        args: dict[str, Any] = {"after_seq": 0, "follow": False, "kinds": ["kernel_died"]}
        # Without an answer the error says less.
        with suppress(GuestError), self._client.open("journal", **args) as connection:
            connection.socket.settimeout(CAUSE_SECONDS)
            for frame in connection.events(bounded=True):
                if wire_fields.event(frame) == "entry":
                    found = event.parse(wire_fields.body(frame))
                    last = found if found.data.get("kernel") == self._kernel else last
        why = "its kernel died" if last is None else last.text
        hint = "the next cell starts a new one"
        if last is not None and last.data.get("cause") == "oom":
            hint += "; `--memory` of `holdfast new` gives a session more memory"
        return KernelDied(f"cannot finish the cell: {why}", hint=hint)

    def _waits(self, event: CellEvent) -> CellResult:
        """Return a result with the cell's question; the cell continues when it is answered."""
        from holdfast.runtime.guest_rpc.wait_state import asked

        return self._result(
            "waiting", waiting=asked(event.text, password=event.password, kernel=self._kernel)
        )

    def _result(
        self, status: CellStatus, execution_count: int | None = None, waiting: State | None = None
    ) -> CellResult:
        return CellResult(
            status=status,
            execution_count=execution_count,
            stdout=self._text["stdout"].value().decode("utf-8", "replace"),
            stderr=self._text["stderr"].value().decode("utf-8", "replace"),
            outputs=tuple(event for event, _ in self._outputs),
            error=self._error,
            duration=time.monotonic() - self._began,
            dropped=self._dropped + sum(tail.dropped for tail in self._text.values()),
            lost=self._lost,
            cell_id=str(self._args["id"]),
            seq=self._seen or 0,
            waiting=waiting,
            recorded=self._recorded,
        )


def _event(kind: Any, seq: int, frame: Frame) -> CellEvent | None:
    if kind == "stream":
        name = wire_fields.text(frame, "name", "stdout")
        return CellEvent("stream", seq, text=frame.payload.decode("utf-8", "replace"), name=name)
    if kind == "input_request":
        prompt = wire_fields.text(frame, "prompt", "")
        return CellEvent("input_request", seq, text=prompt, password=wire_fields.flag(frame, "password"))
    if kind == "error_output":
        body = wire_fields.body(frame)
        lines = body.get("traceback")
        traceback = tuple(str(line) for line in lines) if isinstance(lines, list) else ()
        error = CellError(
            wire_fields.text(body, "ename", ""), wire_fields.text(body, "evalue", ""), traceback
        )
        return CellEvent("error", seq, error=error)
    if kind in DISPLAYS:
        body = wire_fields.body(frame) if frame.payload else {}
        return CellEvent(
            kind,
            seq,
            data=wire_fields.table(body.get("data") or {}, "data"),
            metadata=wire_fields.table(body.get("metadata") or {}, "metadata"),
            transient=wire_fields.table(body.get("transient") or {}, "transient"),
            execution_count=wire_fields.optional_integer(body, "execution_count"),
            left_out=wire_fields.optional_integer(body, "left_out") or 0,
        )
    return None


def _payload(code: str) -> bytes:
    data = call_arguments.text(code, "code").encode("utf-8", "replace")
    if len(data) > protocol.MAX_PAYLOAD:
        raise InvalidArgument(
            f"cannot run the cell: it has {len(data)} bytes, the limit is {protocol.MAX_PAYLOAD}",
            hint="put it into a file of the session and run that",
        )
    return data
