"""The call that shows a terminal and types into it."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.base.value_classes import asdict
from holdfast.errors import InvalidArgument
from holdfast.runtime.api import terminal_handle
from holdfast.runtime.api.session import Session
from holdfast.runtime.attachment.terminal_link import Standing, TerminalLink
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve import event_format
from holdfast.runtime.serve.calls.followed_calls import OVERHEAD, Emit


class TerminalCall:
    """One terminal, for one channel. Input can come before it is linked."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = dict(args)
        self._shell = self._args.pop("shell")
        self._lock = threading.Lock()
        self._link: TerminalLink | None = None
        self._early: list[bytes] = []
        self._held = b""

    def __call__(self, found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        """Follow the terminal until its shell is closed or the patience ends."""
        link = found.terminal_of(self._shell).link(patience=patience, **self._args)
        if emit is not None:
            self._report(link, emit)
        with self._lock:
            self._link = link
            for data in self._early:
                link.type(data)
        return {"reason": link.run()}

    def type(self, data: bytes) -> None:
        """Type bytes; raises as `TerminalLink.type` does."""
        with self._lock:
            if self._link is None:
                self._early.append(data)
            else:
                self._link.type(data)

    def resize(self, rows: int, cols: int) -> None:
        """Report a new size of the client's terminal."""
        with self._lock:
            self._args |= {"rows": rows, "cols": cols}
            if self._link is not None:
                self._link.resize(rows, cols)

    def _report(self, link: TerminalLink, emit: Emit) -> None:
        def output(data: bytes, following: int) -> None:
            piece, self._held = event_format.cut(self._held + data)
            if piece:
                told = {"event": "output", **event_format.text("output", piece)}
                emit({**told, "next": following - len(self._held)}, len(piece) + OVERHEAD)

        def standing(value: Standing) -> None:
            emit({"event": "standing", **asdict(value)}, OVERHEAD)

        link.on_output = output
        link.on_standing = standing
        link.on_gap = lambda size: emit({"event": "gap", "bytes": size}, OVERHEAD)
        link.on_refused = lambda count: emit({"event": "refused", "bytes": count}, OVERHEAD)


MOST_TYPED = 1 << 20
"""Bytes that can wait to be typed."""


class FarTerminal:
    """A terminal at the other end, whose typed input comes in messages, from any thread."""

    encoding = "utf-8"

    def __init__(self, rows: int, cols: int) -> None:
        self._lock = threading.Lock()
        self._size, self._resized = (rows, cols), False
        self._typed = bytearray()
        self._wake_in, self._wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.emit: Emit | None = None
        """The receiver of output; without it nothing is shown."""
        self._held = b""

    def type(self, data: bytes) -> None:
        """Accept typed input.

        Raises:
            InvalidArgument: a MiB is waiting already.
        """
        with self._lock:
            if len(self._typed) + len(data) > MOST_TYPED:
                raise InvalidArgument("cannot type more: the program in the terminal does not read input")
            self._typed += data
        self._wake()

    def resize(self, rows: int, cols: int) -> None:
        """Note a new size."""
        with self._lock:
            self._size, self._resized = (rows, cols), True
        self._wake()

    def close(self) -> None:
        """Release its descriptors."""
        with self._lock:
            for end in (self._wake_in, self._wake_out):
                os.close(end)
            self._wake_in = self._wake_out = -1

    def descriptors(self) -> Sequence[int]:
        """Return the descriptor to wait for."""
        return (self._wake_in,)

    def typed(self, ready: Collection[int]) -> bytes | None:
        """Return the input since the last time."""
        with self._lock:
            data = bytes(self._typed)
            self._typed.clear()
        return data or None

    def resized(self, ready: Collection[int]) -> bool:
        """Return whether its size changed since the last time."""
        if self._wake_in in ready:
            os.read(self._wake_in, 4096)
        with self._lock:
            resized, self._resized = self._resized, False
        return resized

    def size(self) -> tuple[int, int]:
        """Return rows and columns."""
        with self._lock:
            return self._size

    def write(self, data: bytes) -> None:
        """Show output; an incomplete character waits for the rest."""
        piece, self._held = event_format.cut(self._held + data)
        if piece and self.emit is not None:
            self.emit({"event": "output", **event_format.text("output", piece)}, len(piece) + OVERHEAD)

    def _wake(self) -> None:
        with self._lock:
            if self._wake_out >= 0:
                try:
                    os.write(self._wake_out, b"\0")
                except BlockingIOError:
                    return  # it is full, so it wakes


class AttachmentCall:
    """One attachment, for one channel. Input can come before it is joined."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = dict(args)
        self._shell = self._args.pop("shell")
        self._terminal = FarTerminal(self._args.pop("rows"), self._args.pop("cols"))
        self.type, self.resize = self._terminal.type, self._terminal.resize

    def __call__(self, found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        """Stay until the key that detaches comes, the shell is closed, or the patience ends."""
        self._terminal.emit = emit
        try:
            how = {**self._args, "patience": patience}
            joined = terminal_handle.attachment(found.terminal_of(self._shell), self._terminal, **how)
            return {"reason": joined.run()}
        finally:
            self._terminal.close()
