#!/usr/bin/python3 -I
"""The command `holdfast-shell` in a session: joins this terminal to a shell that others see and type in too.

    ssh -t work.holdfast holdfast-shell [--view] [NAME]

It speaks the supervisor's protocol, as `holdfast attach` does on the host. Output is passed on unfiltered,
as to any caller by ssh. C-] leaves.
"""

from __future__ import annotations

import argparse
import os
import secrets
import select
import shutil
import signal
import socket
import sys
import termios
import tty
from collections.abc import Mapping

sys.path.insert(0, "/opt/holdfast/guest")

from holdfast.runtime.guest import layout
from holdfast.runtime.guest.defaults import MAIN
from holdfast.runtime.guest.wire.protocol import VERSION, Frame, FrameError, FrameReader, encode

LEAVE = b"\x1d"
TAIL = 8192
"""Bytes of earlier output that are shown at first; programs that fill the screen paint it again."""
PIECE = 64 << 10
FAILED = 1


class JoinedShell:
    """This terminal, joined to a shell."""

    def __init__(self, opened: socket.socket, *, view: bool) -> None:
        self._socket, self._view = opened, view
        self._reader = FrameReader()
        self._typed = 0
        self.reason = ""

    def begin(self, shell: str) -> None:
        """Request to join."""
        asked = {"shell": shell, "token": secrets.token_hex(8), "tail": TAIL, "view": self._view, **_size()}
        actor = os.environ.get("HOLDFAST_ACTOR") or "person"
        self._send("attach", {"v": VERSION, "actor": actor, **asked})

    def run(self) -> None:
        """Pass bytes on until either end has closed."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(0, select.POLLIN)
        resized, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        poll.register(resized, select.POLLIN)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.set_wakeup_fd(wake)
        while not self.reason:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if resized in ready:
                os.read(resized, PIECE)
                self._send("resize", _size())
            if 0 in ready:
                self._type(os.read(0, PIECE))
            if self._socket.fileno() in ready:
                self._hear(self._socket.recv(PIECE))

    def _type(self, data: bytes) -> None:
        before, left, _ = data.partition(LEAVE)
        if before and not self._view:
            self._send("input", {"at": self._typed}, before)
            self._typed += len(before)
        if left or not data:
            self.reason = "detached"

    def _hear(self, data: bytes) -> None:
        if not data:
            self.reason = "the session ended the connection, as with every snapshot; connect again"
        for frame in self._reader.feed(data):
            event = frame.head.get("event")
            if event == "output":
                _show(frame.payload)
            elif event == "attached" and not self._view and not frame.head.get("writes"):
                _show(f"\r\n[{frame.head.get('holder')} holds the shell: you are watching]\r\n".encode())
            elif event in ("closed", "error"):
                self.reason = str(frame.head.get("reason") or frame.head.get("message") or event)

    def _send(self, op: str, args: Mapping[str, object], payload: bytes = b"") -> None:
        self._socket.sendall(encode(Frame({"op": op, **args}, payload)))


def _size() -> dict[str, int]:
    columns, rows = shutil.get_terminal_size()
    return {"rows": rows, "cols": columns}


def _show(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def main() -> int:
    """Join, and print the reason of the end."""
    parser = argparse.ArgumentParser(
        "holdfast-shell", description="Join a shell of this session. C-] leaves."
    )
    parser.add_argument("shell", nargs="?", default=MAIN, metavar="NAME", help="a shell of `holdfast shells`")
    parser.add_argument("--view", action="store_true", help="watch only")
    given = parser.parse_args()
    if not (os.isatty(0) and os.isatty(1)):
        sys.stderr.write("holdfast-shell: cannot join without a terminal: use `ssh -t`\n")
        return FAILED
    before = termios.tcgetattr(0)
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.connect(str(layout.RUN_DIR / layout.SOCKET_NAME))
            joined = JoinedShell(opened, view=given.view)
            joined.begin(given.shell)
            tty.setraw(0, termios.TCSADRAIN)  # keeps what was typed ahead
            joined.run()
    except (OSError, FrameError) as error:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        sys.stderr.write(f"\nholdfast-shell: cannot join the shell: {getattr(error, 'strerror', error)}\n")
        return FAILED
    termios.tcsetattr(0, termios.TCSADRAIN, before)
    sys.stderr.write(f"\nholdfast-shell: {joined.reason}\n")
    return 0 if joined.reason == "detached" else FAILED


if __name__ == "__main__":
    sys.exit(main())
