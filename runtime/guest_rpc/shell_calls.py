"""Commands of a session's shell, followed to their end across lost connections."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator

from holdfast.base.text import plain
from holdfast.errors import CommandNotFound, GuestDisconnected, GuestError, SessionBusy
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import call_arguments, call_deadline, wire_fields
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.terminal.uncook import AsItIs, Tail, Uncook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest.pulse.state import State
    from holdfast.runtime.guest_rpc.event import Event

    OnWaiting = Callable[[State], None]
    OnStart = Callable[[str], object]
    OnOffset = Callable[[int], object]

OnOutput = Callable[[str], object]
OnBytes = Callable[[bytes], object]
_Decoder = codecs.getincrementaldecoder("utf-8")

# Output that a result keeps, from its end: as much as a program will read if its caller asked for
# nothing else; a little if it was passed on as it came. `dropped` counts the rest.
KEEP = 16 << 20
KEEP_STREAMED = 1 << 20
# How long a command may take to obey an interrupt before its caller stops waiting.
INTERRUPT_SECONDS = 3.0
MAX_PATH = 4096
# The largest terminal that is drawn, in rows or columns.
MAX_SIDE = 1000


class Following:
    """Follows the output and the end of one command, which a different process or session can have
    started."""

    def __init__(
        self,
        client: GuestClient,
        reconnection: Reconnection,
        command_id: str,
        *,
        shell: str,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        patience: float | Patience | None = None,
    ) -> None:
        """Prepare. `on_output` receives text in whole characters; `on_bytes` the bytes as they come."""
        self._client = client
        self._reconnection = reconnection
        self._op, self._payload = "wait", b""
        self._args: dict[str, Any] = {"id": command_id, "shell": shell}
        self._on_output, self._on_bytes = on_output, on_bytes
        self._decoder = None if on_output is None else _Decoder("replace")
        self._wait = wait
        self._patience = Patience.of(patience)
        self._patience.begin()
        self._uncook: Uncook | AsItIs = Uncook()
        self._tail = Tail(KEEP if on_output is None and on_bytes is None else KEEP_STREAMED)
        self._start = 0
        self._next: int | None = None
        self._lost = 0
        self._size = (defaults.DEFAULT_ROWS, defaults.DEFAULT_COLUMNS)
        self._deadline: float | None = None
        self._overdue: float | None = None
        self.on_waiting: OnWaiting | None = None
        """Called each time the command begins to wait for input, instead of ending the call."""
        self.on_start: OnStart | None = None
        """Called with the command's id when it has begun."""
        self.on_offset: OnOffset | None = None
        """Called after each piece of output with the offset at which what follows begins."""

    def run(self, start: int | None = None) -> ExecResult:
        """Wait for the end. An interrupt (Ctrl-C) ends the wait, not the command.

        `start` is the offset of the output to begin with, by default the command's.
        """
        self._next = start if self._next is None else self._next
        return self._reconnection.run(self._follow)

    def leave_line_ends(self) -> None:
        """Pass on the output as the terminal has it: a carriage return before each newline."""
        self._uncook = AsItIs()

    def _follow(self) -> ExecResult:
        if self._patience.ended:
            return self._left()
        args = self._request()
        if self._next is not None:
            args["from_offset"] = self._next
        with self._client.open(self._op, self._payload, **args) as connection:
            self._patience.hold(connection)
            self._limit(connection)
            for frame in self._patient(connection.events()):
                self._reconnection.heard()
                result = self._hear(frame)
                if result is None and self._patience.over:
                    result = self._left()
                if result is not None:
                    return result
                self._limit(connection)
        if self._patience.over:
            return self._left()
        raise GuestDisconnected("cannot continue: the session ended the call without a result")

    def _request(self) -> dict[str, Any]:
        """Return the request to send now."""
        return dict(self._args)

    def _limit(self, connection: Connection) -> None:
        """Limit the next wait to the next deadline."""
        ends = self._deadline or self._patience.until or self._overdue
        if ends is not None:
            connection.socket.settimeout(max(0.01, ends - time.monotonic()))

    def _hear(self, frame: Frame) -> ExecResult | None:
        """Process an event; return the result if it is the last one awaited."""
        kind = wire_fields.event(frame)
        if kind == "started":
            self._start = wire_fields.integer(frame, "offset")
            self._size = _size(frame)
            self._next = self._start if self._next is None else self._next
            if self.on_start is not None:  # said again on each new connection
                begun, self.on_start = self.on_start, None
                begun(str(self._args["id"]))
        elif kind == "output":
            self._take(frame)
        elif kind == "gap":
            self._lost += wire_fields.integer(frame, "size")
            self._next = wire_fields.integer(frame, "offset") + wire_fields.integer(frame, "size")
        elif kind == "waiting" and self.on_waiting is not None:
            self.on_waiting(_state(frame.head.get("state")))
        elif kind == "waiting" and not self._wait:
            return self._waits(frame)
        elif kind == "finished":
            return self._finish(frame)
        return None

    def _patient(self, events: Iterator[Frame]) -> Iterator[Frame]:
        try:
            for frame in events:
                yield frame
                self._check_time()
        except GuestDisconnected:
            self._check_time()
            if not self._patience.over:
                raise

    def _check_time(self) -> None:
        """Raise GuestError if the session has missed a deadline."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise GuestError("cannot interrupt: the command keeps running")
        call_deadline.check(self._overdue, "command")

    def _take(self, frame: Frame) -> None:
        # After a reconnection the guest may start a little earlier than requested.
        start, end = wire_fields.integer(frame, "offset"), wire_fields.integer(frame, "next")
        if self._next is not None and end <= self._next:
            return
        data = frame.payload
        if self._next is not None and start < self._next:
            data = data[self._next - start :] if end - start == len(data) else b""
        self._next = end
        self._emit(self._uncook.feed(data))
        if self.on_offset is not None:
            self.on_offset(end - self._uncook.held)

    def _emit(self, data: bytes) -> None:
        if not data:
            return
        self._tail.feed(data)
        if self._on_bytes is not None:
            self._on_bytes(data)
        if self._on_output and self._decoder and (text := self._decoder.decode(data)):
            self._on_output(text)

    def _end_output(self) -> None:
        """Pass on output that was held back for a possible continuation."""
        self._emit(self._uncook.end())
        if self._on_output and self._decoder and (text := self._decoder.decode(b"", final=True)):
            self._on_output(text)

    def _waits(self, frame: Frame) -> ExecResult:
        """Return a result with the input the command waits for; the command continues."""
        from dataclasses import replace

        found = _state(frame.head.get("state"))
        self._start = wire_fields.integer(frame, "start_offset")
        return replace(self._goes_on(), waiting=found, duration=wire_fields.number(frame, "duration"))

    def _left(self) -> ExecResult:
        """Return the result for a caller that no longer waits."""
        return self._goes_on()

    def _goes_on(self) -> ExecResult:
        self._end_output()
        return ExecResult(
            exit_code=None,
            output=self._tail.value(),
            start_offset=self._start,
            end_offset=self._next or self._start,
            dropped=self._tail.dropped,
            lost=self._lost,
            command_id=str(self._args["id"]),
            rows=self._size[0],
            cols=self._size[1],
        )

    def _finish(self, frame: Frame) -> ExecResult:
        self._end_output()
        return wire_fields.value(
            ExecResult,
            frame,
            exit_code=wire_fields.optional_integer(frame, "exit_code", -255),
            output=self._tail.value(),
            dropped=self._tail.dropped,
            lost=self._lost,
            command_id=str(self._args["id"]),
            news=_news(frame),
            message=plain(wire_fields.text(frame, "message", ""), 500),
            cwd=_path(frame),
            rows=self._size[0],
            cols=self._size[1],
        )


class ShellCall(Following):
    """One command, from its start to its result."""

    def __init__(
        self,
        client: GuestClient,
        reconnection: Reconnection,
        command: str,
        *,
        shell: str,
        timeout: float | None,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        lease_wait: float | None = None,
        busy_wait: float | None = None,
        patience: float | Patience | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> None:
        id_ = call_arguments.id_for(key)
        super().__init__(
            client, reconnection, id_, shell=shell, on_output=on_output, on_bytes=on_bytes, wait=wait
        )
        self._op, self._payload = "exec", call_arguments.command(command)
        self._args["timeout"] = call_arguments.seconds(timeout, "timeout")
        self._args["lease_wait"] = call_arguments.seconds(lease_wait, "lease_wait")
        self._patience = Patience.of(patience)
        self._begun = False
        now, busy = time.monotonic(), call_arguments.patience(busy_wait, "busy_wait") or 0.0
        self._busy_until = now + busy
        if timeout is not None:
            self._overdue = call_deadline.after(timeout + (lease_wait or 0.0) + busy)
        self._args |= {name: text for name, text in (("key", key), ("reason", reason)) if text is not None}

    def run(self, start: int | None = None) -> ExecResult:
        """Run the command and wait for its end.

        An interrupt (Ctrl-C) is passed to the command, whose end is awaited for a moment; then it is raised
        again. A second one is raised immediately. Either way the shell and the processes in it stay.
        """
        try:
            return super().run(start)
        except KeyboardInterrupt:
            try:
                if self._reconnection.run(self.interrupt):
                    self._deadline = time.monotonic() + INTERRUPT_SECONDS
                    super().run()
            except (GuestError, SessionBusy) as error:
                raise KeyboardInterrupt from error
            raise

    def _request(self) -> dict[str, Any]:
        left = self._busy_until - time.monotonic()
        return {**self._args, "busy_wait": left} if left > 0 else dict(self._args)

    def _hear(self, frame: Frame) -> ExecResult | None:
        if wire_fields.event(frame) == "started":
            self._begun = True
            self._patience.begin()  # by other rules than it waited for the shell
        return super()._hear(frame)

    def _left(self) -> ExecResult:
        """Return the result for a caller that no longer waits.

        Raises:
            SessionBusy: the command has not begun.
        """
        if self._patience.ended and not self._begun and not self._is_known():
            raise SessionBusy("cannot run the command: the caller no longer waits for the shell")
        return self._goes_on()

    def _is_known(self) -> bool:
        """Check whether the session has begun the command, although it could not report so."""
        try:
            with self._client.connect() as connection:
                connection.ask("wait", id=self._args["id"], shell=self._args["shell"])
        except CommandNotFound:
            return False
        return True

    def interrupt(self) -> bool:
        """Interrupt the command; return whether it runs. While it waits for the shell, a different one
        runs."""
        sent = self._client.request("signal", shell=self._args["shell"], signal="INT", id=self._args["id"])
        return sent.head.get("reached") is not False


# What few commands have to read is loaded when it is there.


def _state(value: Any) -> State:
    from holdfast.runtime.guest_rpc.wait_state import state

    return state(value)


def _news(frame: Frame) -> tuple[Event, ...]:
    rows = wire_fields.rows(frame, "news")
    if not rows:
        return ()
    from holdfast.runtime.guest_rpc.event import parse

    return tuple(map(parse, rows))


def _path(frame: Frame) -> str | None:
    found = wire_fields.optional_text(frame, "cwd")
    return None if found is None else plain(found, MAX_PATH)


def _size(frame: Frame) -> tuple[int, int]:
    rows = wire_fields.optional_integer(frame, "rows", 1) or defaults.DEFAULT_ROWS
    cols = wire_fields.optional_integer(frame, "cols", 1) or defaults.DEFAULT_COLUMNS
    return min(rows, MAX_SIDE), min(cols, MAX_SIDE)
