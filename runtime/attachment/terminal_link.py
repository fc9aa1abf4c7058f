"""A program joined to a session's terminal: its output and input, across lost connections.

Like a person's `attach.Attachment`, but what it shows and types is a program's: a page in a browser, or a
client at the other end of a server. Nothing is filtered or answered here.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.base.value_classes import dataclass
from holdfast.errors import GuestDisconnected, InvalidArgument
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient, raise_error
from holdfast.runtime.guest_rpc.patience import Patience

if TYPE_CHECKING:
    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.reconnect import Reconnection

WINDOW = 64 << 10
"""Bytes sent to the supervisor that are possibly not typed yet: less than a socket holds."""
MOST_UNSENT = 1 << 20
SEND_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether input is passed on, the shell's holder, and the size of its terminal."""

    writes: bool
    holder: str
    rows: int
    cols: int


class TerminalLink:
    """One terminal, followed in one thread; other threads can type, and end it by its patience.

    Args:
        client: of the session.
        reconnection: of the call.
        shell: which of the session's shells.
        size: rows and columns of the program's terminal.
        start: offset of the output to begin with; by default its end, less `tail` bytes.
        tail: see `start`.
        view: only watch; nothing is typed.
        take: take the shell from its holder.
    """

    def __init__(
        self,
        client: GuestClient,
        reconnection: Reconnection,
        *,
        shell: str,
        size: tuple[int, int],
        start: int | None = None,
        tail: int = 0,
        view: bool = False,
        take: bool = False,
        patience: Patience | None = None,
    ) -> None:
        self._client, self._reconnection, self._shell = client, reconnection, shell
        self._size, self._next, self._tail = size, start, tail
        self._view, self._take = view, take
        self._token = secrets.token_hex(8)
        self._patience = patience or Patience()
        self._lock = threading.Lock()
        self._unsent = bytearray()
        self._taken = self._sent = 0
        self._attached = False
        self._resized = False
        self._wake_in, self._wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.on_output: Callable[[bytes, int], object] = lambda data, following: None
        """Called with output, and the offset at which what follows begins."""
        self.on_standing: Callable[[Standing], object] = lambda standing: None
        self.on_gap: Callable[[int], object] = lambda size: None
        """Called with the number of bytes that are not kept any more, before the output that follows."""
        self.on_refused: Callable[[int], object] = lambda count: None
        """Called with the number of bytes that were not typed, because another actor holds the shell."""

    def type(self, data: bytes) -> None:
        """Type bytes, in order, from any thread.

        Raises:
            InvalidArgument: the program in the terminal does not read, and a MiB waits for it.
        """
        with self._lock:
            if len(self._unsent) + len(data) > MOST_UNSENT:
                raise InvalidArgument("cannot type more: the program in the terminal does not read input")
            self._unsent += data
        self._wake()

    def resize(self, rows: int, cols: int) -> None:
        """Report a new size of the program's terminal, from any thread."""
        with self._lock:
            self._size, self._resized = (rows, cols), True
        self._wake()

    def run(self) -> str:
        """Follow until the shell is closed, and return why; `left` once the patience is ended.

        Raises:
            SessionError: the session ended.
        """
        self._reconnection.again = self._start_over
        try:
            return self._reconnection.run(self._follow)
        finally:
            with self._lock:
                for end in (self._wake_in, self._wake_out):
                    os.close(end)
                self._wake_in = self._wake_out = -1

    def _follow(self) -> str:
        if self._patience.ended:
            return "left"
        rows, cols = self._size
        args: dict[str, Any] = {"shell": self._shell, "rows": rows, "cols": cols, "token": self._token}
        args |= {"tail": self._tail} if self._next is None else {"offset": self._next}
        self._attached = False
        with self._client.open("attach", view=self._view, take=self._take, **args) as connection:
            self._patience.hold(connection)
            connection.socket.settimeout(SEND_SECONDS)
            poll = select.poll()  # select(2) ends at descriptor 1023
            poll.register(connection.socket, select.POLLIN)
            poll.register(self._wake_in, select.POLLIN)
            while True:
                wait = connection.silence.left()
                ready = {descriptor for descriptor, _ in poll.poll(None if wait is None else wait * 1000)}
                connection.silence.look()
                if self._wake_in in ready:
                    os.read(self._wake_in, 4096)
                try:
                    if connection.socket.fileno() in ready and (reason := self._came(connection)):
                        return reason
                    self._send(connection)
                except GuestDisconnected:
                    if self._patience.ended:
                        return "left"
                    raise

    def _came(self, connection: Connection) -> str:
        """Process received data; return the reason of the end, if it has ended."""
        for frame in connection.receive():
            self._reconnection.heard()
            raise_error(frame)
            match wire_fields.event(frame):
                case "attached":
                    self._take, self._attached = False, True
                    self._arrived(wire_fields.integer(frame, "typed"))
                    self._sent = self._taken
                    if self._next is None:
                        self._next = wire_fields.integer(frame, "offset")
                    self._stands(frame)
                case "output":
                    self._output(frame)
                case "gap":
                    size = wire_fields.integer(frame, "size")
                    self._next = wire_fields.integer(frame, "offset") + size
                    self.on_gap(size)
                case "standing":
                    self._stands(frame)
                case "typed":
                    self._arrived(wire_fields.integer(frame, "count"))
                case "refused":
                    self._arrived(wire_fields.integer(frame, "count"))
                    self.on_refused(wire_fields.integer(frame, "bytes"))
                case "closed":
                    return plain(wire_fields.text(frame, "reason", "closed") or "closed", 80)
        return ""

    def _output(self, frame: Frame) -> None:
        begin, end = wire_fields.integer(frame, "offset"), wire_fields.integer(frame, "next")
        data, known = frame.payload, self._next or 0
        if end <= known:
            return
        if begin < known:
            data = data[known - begin :] if end - begin == len(data) else b""
        self._next = end
        self.on_output(data, end)

    def _stands(self, frame: Frame) -> None:
        self.on_standing(
            Standing(
                wire_fields.flag(frame, "writes"),
                plain(wire_fields.optional_text(frame, "holder") or "", 80),
                wire_fields.integer(frame, "rows", 1),
                wire_fields.integer(frame, "cols", 1),
            )
        )

    def _arrived(self, count: int) -> None:
        with self._lock:
            if self._taken < count <= self._taken + len(self._unsent):
                del self._unsent[: count - self._taken]
                self._taken = count

    def _send(self, connection: Connection) -> None:
        """Send the typed input and any new size, as far as there is room."""
        if not self._attached:
            return
        with self._lock:
            part = bytes(self._unsent[self._sent - self._taken : WINDOW])
            at, resized, (rows, cols) = self._sent, self._resized, self._size
            self._sent, self._resized = at + len(part), False
        if part:
            connection.send(protocol.request("input", {"at": at}), part)
        if resized:
            connection.send(protocol.request("resize", {"rows": rows, "cols": cols}))

    def _start_over(self) -> None:
        """Start over after a rewind: the terminal shows something else, and pending input is dropped."""
        with self._lock:
            self._unsent.clear()
            self._taken = self._sent = 0
        self._next, self._token = None, secrets.token_hex(8)

    def _wake(self) -> None:
        with self._lock:
            if self._wake_out >= 0:
                with contextlib.suppress(BlockingIOError):  # it is full, so it wakes
                    os.write(self._wake_out, b"\0")
