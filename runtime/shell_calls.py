"""Commands of a session's shell, followed to their end across lost connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from holdfast.errors import GuestDisconnected, GuestError, InvalidArgument, SessionBusy
from holdfast.runtime import fields, ids, overdue
from holdfast.runtime.events import parse
from holdfast.runtime.guest import protocol
from holdfast.runtime.guest.actor import id_of
from holdfast.runtime.guest.protocol import Frame
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_client import GuestClient
from holdfast.runtime.persistence import Persistence
from holdfast.runtime.results import ExecResult, ShellInfo
from holdfast.runtime.terminal.leasing import lease
from holdfast.runtime.terminal.uncook import Tail, Uncook
from holdfast.runtime.waiting import state

OnOutput = Callable[[bytes], None]
OnWaiting = Callable[[State], None]

# What a result keeps of its output, from its end: as much as a program will look at for one who asked for
# nothing else; a little for one who was given everything as it came. `dropped` counts the rest.
KEEP = 16 << 20
KEEP_STREAMED = 1 << 20
# How long a command may take to obey an interrupt before its caller is let go.
INTERRUPT_SECONDS = 3.0


class Following:
    """The output and the end of one command, which may have been begun by another process or session."""

    def __init__(
        self,
        client: GuestClient,
        persistence: Persistence,
        command_id: str,
        *,
        shell: str,
        on_output: OnOutput | None,
        wait: bool = False,
        patience: float | None = None,
    ) -> None:
        self._client = client
        self._persistence = persistence
        self._op, self._payload = "wait", b""
        self._args: dict[str, Any] = {"id": command_id, "shell": shell}
        self._on_output = on_output
        self._wait = wait
        self._until = None if patience is None else time.monotonic() + patience
        self._uncook = Uncook()
        self._tail = Tail(KEEP if on_output is None else KEEP_STREAMED)
        self._start = 0
        self._next: int | None = None
        self._lost = 0
        self._deadline: float | None = None
        self._overdue: float | None = None
        self.on_waiting: OnWaiting | None = None
        """Is told each time it waits for somebody, instead of an end of the following."""

    def run(self, start: int | None = None) -> ExecResult:
        """Wait for the end. An interrupt (Ctrl-C) ends the waiting, not the command.

        `start` is the offset of the output to begin with, if not that of the command.
        """
        self._next = start if self._next is None else self._next
        return self._persistence.run(self._follow)

    def _follow(self) -> ExecResult:
        args = dict(self._args)
        if self._next is not None:
            args["from_offset"] = self._next
        with self._client.open(self._op, self._payload, **args) as connection:
            ends = self._deadline or self._until or self._overdue
            if ends is not None:
                connection.socket.settimeout(max(0.01, ends - time.monotonic()))
            for frame in self._patient(connection.events()):
                self._persistence.heard()
                result = self._hear(frame)
                if result is None and self._until is not None and time.monotonic() >= self._until:
                    result = self._goes_on()
                if result is not None:
                    return result
        if self._until is not None and time.monotonic() >= self._until:
            return self._goes_on()
        raise GuestDisconnected("cannot go on: the session ended the call without a result")

    def _hear(self, frame: Frame) -> ExecResult | None:
        """Take an event; return the result if it is the last that is waited for."""
        kind = fields.event(frame)
        if kind == "started":
            self._start = fields.integer(frame, "offset")
            self._next = self._start if self._next is None else self._next
        elif kind == "output":
            self._take(frame)
        elif kind == "gap":
            self._lost += fields.integer(frame, "size")
            self._next = fields.integer(frame, "offset") + fields.integer(frame, "size")
        elif kind == "waiting" and self.on_waiting is not None:
            self.on_waiting(state(frame.head.get("state")))
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
            if self._until is None or time.monotonic() < self._until:
                raise

    def _check_time(self) -> None:
        """Raise GuestError if a session does not do what it should have done by now."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise GuestError("cannot interrupt: the command goes on")
        overdue.check(self._overdue, "command")

    def _take(self, frame: Frame) -> None:
        # After a reconnection the guest may begin a little earlier than asked.
        start, end = fields.integer(frame, "offset"), fields.integer(frame, "next")
        if self._next is not None and end <= self._next:
            return
        data = frame.payload
        if self._next is not None and start < self._next:
            data = data[self._next - start :] if end - start == len(data) else b""
        self._next = end
        self._emit(self._uncook.feed(data))

    def _emit(self, data: bytes) -> None:
        if not data:
            return
        self._tail.feed(data)
        if self._on_output is not None:
            self._on_output(data)

    def _waits(self, frame: Frame) -> ExecResult:
        """The command goes on; its caller is told what it waits for."""
        found = state(frame.head.get("state"))
        self._start = fields.integer(frame, "start_offset")
        return replace(self._goes_on(), waiting=found, duration=fields.number(frame, "duration"))

    def _goes_on(self) -> ExecResult:
        self._emit(self._uncook.end())
        return ExecResult(
            exit_code=None,
            output=self._tail.value(),
            start_offset=self._start,
            end_offset=self._next or self._start,
            dropped=self._tail.dropped,
            lost=self._lost,
            command_id=str(self._args["id"]),
        )

    def _finish(self, frame: Frame) -> ExecResult:
        self._emit(self._uncook.end())
        output = self._tail.value()
        return ExecResult(
            exit_code=fields.optional_integer(frame, "exit_code", -255),
            signal=fields.optional_integer(frame, "signal"),
            output=output,
            start_offset=fields.integer(frame, "start_offset"),
            end_offset=fields.integer(frame, "end_offset"),
            timed_out=fields.flag(frame, "timed_out"),
            shell_exited=fields.flag(frame, "shell_exited"),
            incomplete=fields.flag(frame, "incomplete"),
            duration=fields.number(frame, "duration"),
            dropped=self._tail.dropped,
            lost=self._lost,
            command_id=str(self._args["id"]),
            recorded=fields.flag(frame, "recorded"),
            news=tuple(parse(row) for row in fields.rows(frame, "news")),
        )


class ShellCall(Following):
    """One command, from its start to its result."""

    def __init__(
        self,
        client: GuestClient,
        persistence: Persistence,
        command: str,
        *,
        shell: str,
        timeout: float | None,
        on_output: OnOutput | None,
        wait: bool = False,
        lease_wait: float | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> None:
        id_ = ids.new_id() if key is None else id_of(key)
        super().__init__(client, persistence, id_, shell=shell, on_output=on_output, wait=wait)
        self._op, self._payload = "exec", _payload(command)
        self._args["timeout"] = _seconds(timeout)
        self._args["lease_wait"] = _seconds(lease_wait)
        if timeout is not None:
            self._overdue = overdue.after(timeout + (lease_wait or 0.0))
        self._args |= {name: text for name, text in (("key", key), ("reason", reason)) if text is not None}

    def run(self, start: int | None = None) -> ExecResult:
        """Run the command and wait for its end.

        An interrupt (Ctrl-C) is passed to the command, whose end is awaited for a moment; then it is raised
        again.  A second one is raised at once.  Either way the shell and what runs in it stay.
        """
        try:
            return super().run(start)
        except KeyboardInterrupt:
            try:
                self._persistence.run(self.interrupt)
                self._deadline = time.monotonic() + INTERRUPT_SECONDS
                super().run()
            except (GuestError, SessionBusy) as error:
                raise KeyboardInterrupt from error
            raise

    def interrupt(self) -> None:
        """Send the terminal's interrupt to what runs in the foreground."""
        self._client.request("signal", shell=self._args["shell"], signal="INT")


def shell_info(client: GuestClient, shell: str) -> ShellInfo:
    """What the supervisor says about a shell.

    Raises:
        InvalidArgument: there is none of that name.
    """
    for row in fields.rows(client.request("hello"), "shells"):
        frame = Frame({"event": "hello", **row})
        if fields.text(frame, "name") == shell:
            return ShellInfo(
                name=shell,
                pid=fields.integer(frame, "pid"),
                rows=min(fields.integer(frame, "rows", 1), 1000),
                cols=min(fields.integer(frame, "cols", 1), 1000),
                offset=fields.integer(frame, "offset"),
                state=fields.text(frame, "state", ""),
                command_id=fields.optional_text(frame, "exec"),
                observed=state(row["observed"]) if "observed" in row else None,
                holder=lease(frame).holder,
            )
    raise InvalidArgument(f"cannot find shell '{shell}': the session has none of that name")


def _payload(command: str) -> bytes:
    data = command.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise InvalidArgument("cannot run the command: it contains a NUL byte")
    if not data.strip():
        raise InvalidArgument(
            "cannot run the command: it is empty", hint="for example `holdfast exec S 'ls -l'`"
        )
    if len(data) > protocol.MAX_PAYLOAD:
        raise InvalidArgument(
            f"cannot run the command: it has {len(data)} bytes, the limit is {protocol.MAX_PAYLOAD}",
            hint="put it into a file of the session and run that",
        )
    return data


def _seconds(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if not 0 < timeout < 1e9:
        raise InvalidArgument("cannot use this timeout: it must be more than 0 seconds")
    return float(timeout)
