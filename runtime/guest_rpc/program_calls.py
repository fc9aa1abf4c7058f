"""Programs of a session, followed to their end and given input, across lost connections."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import GuestDisconnected, GuestError, HoldfastError, ProtocolError
from holdfast.runtime.guest_rpc import guest_client, wire_fields
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult
from holdfast.runtime.terminal.uncook import Tail

if TYPE_CHECKING:
    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

OnBytes = Callable[[bytes], object]
OnStreamOffset = Callable[[str, int], object]
KEEP = 16 << 20
"""Bytes of each stream that a result keeps, from its end; KEEP_STREAMED if they were passed on."""
KEEP_STREAMED = 1 << 20
PART = 1 << 20
GRACE = 3.0
"""Seconds that a program has to end after SIGTERM."""
STREAMS = ("stdout", "stderr")


def request(
    channel: SessionChannel, op: str, payload: bytes = b"", *, uses: bool = False, **args: Any
) -> Frame:
    """Send a repeatable request until it is answered.

    `uses`: it is a use of the session, and wakes it.
    """
    client = (channel.awake() if uses else channel).client()
    with channel.explained():
        return channel.reconnection(wakes=uses).run(lambda: client.request(op, payload=payload, **args))


class ProgramFollowing:
    """Follows the output of one program, from its beginning to its end."""

    def __init__(
        self,
        channel: SessionChannel,
        id_: str,
        *,
        on_stdout: OnBytes | None = None,
        on_stderr: OnBytes | None = None,
        timeout: float | None = None,
        patience: float | Patience | None = None,
        on_offset: OnStreamOffset | None = None,
        start: Mapping[str, int] | None = None,
    ) -> None:
        self._channel = channel
        self._client = channel.client()
        self._id = id_
        self._reader = secrets.token_hex(8)
        self._pass_on = {"stdout": on_stdout, "stderr": on_stderr}
        self._tails = {name: Tail(KEEP_STREAMED if self._pass_on[name] else KEEP) for name in STREAMS}
        self._on_offset = on_offset
        self._places = {name: (start or {}).get(name, 0) for name in STREAMS}
        self._lost = 0
        self._timeout = None if timeout is None else time.monotonic() + timeout
        self._patience = Patience.of(patience)
        self._patience.begin()
        self._timed_out = False

    def run(self) -> ProgramResult:
        """Return the result at its end, or with its present state when the patience is over."""
        reconnection = self._channel.reconnection()
        with self._channel.explained():
            while True:
                result = reconnection.run(lambda: self._attempt(reconnection.heard))
                if result is not None:
                    return result
                self._times_out()

    def _attempt(self, heard: Callable[[], None]) -> ProgramResult | None:
        """Follow until the end; None if the timeout is over."""
        if self._patience.ended:
            return self._result(info(self._channel, self._id))
        args: dict[str, Any] = {"id": self._id, "reader": self._reader, **self._places}
        with self._client.open("program_follow", **args) as connection:
            self._patience.hold(connection)
            connection.socket.settimeout(self._left())
            try:
                for frame in connection.events():
                    heard()
                    self._hear(frame)
                    if wire_fields.event(frame) == "finished":
                        return self._result(ProgramInfo.of(frame))
                    if (left := self._left()) is not None:
                        connection.socket.settimeout(left)
                    if self._patience.over or self._is_late():
                        break
            except GuestDisconnected:
                if not (self._patience.over or self._is_late()):
                    raise
        if self._is_late() and not self._patience.ended:
            return None
        if self._patience.over:
            return self._result(info(self._channel, self._id))
        raise GuestDisconnected("cannot continue: the session ended the call without a result")

    def _left(self) -> float | None:
        ends = [end for end in (self._patience.until, self._timeout) if end is not None]
        return max(0.01, min(ends) - time.monotonic()) if ends else None

    def _is_late(self) -> bool:
        return self._timeout is not None and time.monotonic() >= self._timeout

    def _times_out(self) -> None:
        """End it: by SIGTERM first, then by SIGKILL, then by giving up."""
        if self._timed_out:
            signal(self._channel, self._id, "KILL")
            self._timeout = None
            self._patience.limit(GRACE)
            return
        self._timed_out, self._timeout = True, time.monotonic() + GRACE
        signal(self._channel, self._id, "TERM")

    def _hear(self, frame: Frame) -> None:
        kind = wire_fields.event(frame)
        if kind not in ("output", "gap"):
            return
        name, offset = wire_fields.choice(frame, "stream", STREAMS), wire_fields.integer(frame, "offset")
        if offset != self._places[name]:
            raise ProtocolError("cannot understand the session: output of a program is out of order")
        if kind == "gap":
            size = wire_fields.integer(frame, "size")
            self._lost += size
            self._places[name] += size
            return
        if self._on_offset is not None:
            self._on_offset(name, offset)
        self._places[name] += len(frame.payload)
        self._tails[name].feed(frame.payload)
        if (pass_on := self._pass_on[name]) is not None:
            pass_on(frame.payload)

    def _result(self, found: ProgramInfo) -> ProgramResult:
        stdout, stderr = (self._tails[name].value() for name in STREAMS)
        dropped = sum(tail.dropped for tail in self._tails.values())
        return ProgramResult(found, stdout, stderr, self._timed_out, dropped, self._lost)


class InputFeed:
    """Sends a program input from a thread of its own, while a second thread follows its output."""

    def __init__(self, channel: SessionChannel, id_: str, parts: Iterable[bytes]) -> None:
        self._channel, self._id, self._parts = channel, id_, parts
        self.trouble: HoldfastError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="holdfast-input")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        try:
            write(self._channel, self._id, self._parts, close=True)
        except HoldfastError as error:
            self.trouble = error


def write(
    channel: SessionChannel,
    id_: str,
    parts: Iterable[bytes],
    *,
    close: bool,
    offset: int = 0,
    patience: Patience | None = None,
) -> int:
    """Send a program input from an offset, as far as it accepts any; return the offset after it.

    A program can pause reading for any time; a patience bounds the waiting for it.
    """
    patience = Patience.of(patience)
    patience.begin()
    for part in parts:
        begin = offset
        while offset < begin + len(part):
            piece = part[offset - begin : offset - begin + PART]
            answer = _offered(channel, piece, patience, id=id_, offset=offset)
            if answer is None:
                return max(offset, min(info(channel, id_).accepted, begin + len(part)))
            if not wire_fields.flag(answer, "takes"):
                return offset
            offset = wire_fields.integer(answer, "accepted", offset)
            if offset > begin + len(part):
                raise ProtocolError("cannot understand the session: it reported more input than was sent")
    if close:
        with contextlib.suppress(GuestError):
            request(channel, "program_write", id=id_, offset=offset, close=True)
    return offset


def _offered(channel: SessionChannel, piece: bytes, patience: Patience, **args: Any) -> Frame | None:
    """Offer a program a piece of input; None if the patience ended before an answer."""
    client = channel.client()

    def attempt() -> Frame | None:
        if patience.over:
            return None
        try:
            with client.open("program_write", piece, **args) as connection:
                patience.hold(connection)
                connection.socket.settimeout(_before(patience.left(), guest_client.ANSWER_SECONDS))
                return next(connection.events())
        except (GuestDisconnected, StopIteration) as error:
            if patience.over:
                return None
            raise GuestDisconnected("cannot continue: the session does not answer") from error

    with channel.explained():
        return channel.reconnection().run(attempt)


def _before(seconds: float | None, most: float) -> float:
    """Return a waiting time that respects both limits."""
    return most if seconds is None else max(0.01, min(seconds, most))


def signal(channel: SessionChannel, id_: str, name: str) -> None:
    """Send a signal to a program and all that it started."""
    request(channel, "program_signal", id=id_, signal=name)


def info(channel: SessionChannel, id_: str) -> ProgramInfo:
    """Return the session's present report of a program."""
    return listed(channel, id_)[0]


def listed(channel: SessionChannel, id_: str | None = None) -> list[ProgramInfo]:
    """Return the programs that the session knows, the oldest first, or one of them."""
    args: dict[str, Any] = {} if id_ is None else {"id": id_}
    found = [
        ProgramInfo.of(row) for row in wire_fields.rows(request(channel, "program_list", **args), "programs")
    ]
    if id_ is not None and len(found) != 1:
        raise ProtocolError("cannot understand the session: it described more than one program")
    return found
