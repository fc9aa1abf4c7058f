"""Beside a remote engine: runs one command line of `holdfast` for a caller on another machine.

Reads frames from standard input and writes frames to standard output; see `relay_frames.py`. Runs in the
container of `elsewhere.py`, and does not know engines or sessions. A caller that is lost is a terminal that
hangs up.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from holdfast.base import host_environment
from holdfast.runtime.attachment import own_terminal as local_terminal
from holdfast.runtime.remote import relay_frames
from holdfast.runtime.remote.relay_frames import (
    ALIVE,
    ALIVE_SECONDS,
    BEGIN,
    ERRORS,
    EXIT,
    INPUT,
    OUTPUT,
    PIECE,
    SIGNAL,
    SIZE,
    TAKEN,
    frame,
)

COMMAND = (sys.executable, "-I", "-m", "holdfast")
IN_USE = Path("/run/holdfast-in-use")
"""A lock that every call shares: the container lasts while one is held."""
IDLE_SECONDS = 600.0
"""How long the container stays after its last call."""
_LOOK_SECONDS = 15.0


class FrameWriter:
    """The frames to the caller, from several threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = threading.Lock()

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Write one whole frame; the loss of the caller shows in its input."""
        with self._turn, suppress(BrokenPipeError):
            local_terminal.write(self._descriptor, frame(kind, body))


class RemoteCall:
    """One command line while it runs, on a terminal of its own or with pipes."""

    def __init__(self, wanted: dict[str, Any], out: FrameWriter) -> None:
        self._out = out
        self._master = -1
        self._input: SimpleQueue[bytes] = SimpleQueue()
        self._readers: list[threading.Thread] = []
        self._process = self._start(wanted)

    def _start(self, wanted: dict[str, Any]) -> subprocess.Popen[bytes]:
        command = [*COMMAND, *map(str, wanted["arguments"])]
        # The container's, and nothing of the caller's but what it chose to send.
        chosen = {str(key): str(value) for key, value in wanted["environment"].items()}
        kinds = [wanted[name] for name in ("input", "output", "errors")]
        ends = {"none": subprocess.DEVNULL, "pipe": subprocess.PIPE}
        if "terminal" in kinds:
            self._master, ends["terminal"] = pty.openpty()
            self.resize(*wanted["size"])
        process = subprocess.Popen(
            command,
            stdin=ends[kinds[0]],
            stdout=ends[kinds[1]],
            stderr=ends[kinds[2]],
            env=host_environment.with_settings(chosen),
            start_new_session=True,
            preexec_fn=lambda: _own(kinds),
        )
        if self._master >= 0:
            os.close(ends["terminal"])
            self._read(os.fdopen(os.dup(self._master), "rb", buffering=0), OUTPUT)
        if process.stdin:
            self._write_to(process.stdin.fileno(), process.stdin.close)
        elif kinds[0] == "terminal":
            self._write_to(self._master, lambda: None)
        for stream, kind in ((process.stdout, OUTPUT), (process.stderr, ERRORS)):
            if stream:
                self._read(stream, kind)
        return process

    def take(self, data: bytes) -> None:
        """Pass input on; empty data is its end."""
        self._input.put(data)

    def signal(self, name: str) -> None:
        """Send a signal to the command, if it still runs."""
        with suppress(ProcessLookupError, KeyError):
            self._process.send_signal(signal.Signals[name])

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal a size."""
        if self._master >= 0:
            termios.tcsetwinsize(self._master, (rows, columns))

    def finish(self) -> int:
        """Wait for the command, pass on the rest of its output, and return its exit code as a shell does."""
        code = self._process.wait()
        for reader in self._readers:
            # Something it started may still hold the other end; what it writes later has no reader.
            reader.join(timeout=5)
        return code if code >= 0 else 128 - code

    def _write_to(self, descriptor: int, close: Callable[[], None]) -> None:
        def write() -> None:
            while data := self._input.get():
                with suppress(OSError):  # the command reads no more: what comes is dropped, as by a pipe
                    local_terminal.write(descriptor, data)
                self._out.send(TAKEN, str(len(data)).encode())
            with suppress(OSError):
                close()

        threading.Thread(target=write, daemon=True).start()

    def _read(self, stream: Any, kind: bytes) -> None:
        def read() -> None:
            with suppress(OSError):  # EIO: no process has the terminal any more, see pty(7)
                while data := os.read(stream.fileno(), PIECE):
                    self._out.send(kind, data)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        self._readers.append(thread)


def _own(kinds: list[str]) -> None:
    """Give the terminal to the command's session, which Ctrl-C and a hangup need."""
    if "terminal" in kinds:
        fcntl.ioctl(kinds.index("terminal"), termios.TIOCSCTTY, 0)


def serve() -> int:
    """Run the command line that the first frame names; return the exit code of the doorkeeper."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with IN_USE.open("a") as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        out = FrameWriter(sys.stdout.fileno())
        frames = _incoming()
        kind, body = next(frames, (b"", b""))
        if kind != BEGIN:
            return 2
        call = RemoteCall(json.loads(body), out)
        threading.Thread(target=_follow, args=(frames, call), daemon=True).start()
        threading.Thread(target=_show_life, args=(out,), daemon=True).start()
        code = call.finish()
        out.send(EXIT, str(code).encode())
    return 0


def _incoming() -> Iterator[tuple[bytes, bytes]]:
    parts = relay_frames.frames()
    while data := os.read(0, PIECE):
        yield from parts.feed(data)


def _follow(frames: Iterator[tuple[bytes, bytes]], call: RemoteCall) -> None:
    for kind, body in frames:
        if kind == INPUT:
            call.take(body)
        elif kind == SIGNAL:
            call.signal(body.decode("ascii", "replace"))
        elif kind == SIZE:
            call.resize(*json.loads(body))
    call.take(b"")
    call.signal("SIGHUP")


def _show_life(out: FrameWriter) -> None:
    while True:
        time.sleep(ALIVE_SECONDS)
        out.send(ALIVE)


def stay() -> None:
    """Stay until no call was served for a while: the first process of the container."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    idle = 0.0
    with IN_USE.open("a") as used:
        while idle < IDLE_SECONDS:
            time.sleep(_LOOK_SECONDS)
            idle += _LOOK_SECONDS
            try:
                fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                idle = 0.0
            else:
                fcntl.flock(used, fcntl.LOCK_UN)


def main() -> int:
    """Stay, or serve one call."""
    if sys.argv[1:] == ["stay"]:
        stay()
        return 0
    return serve()


if __name__ == "__main__":
    sys.exit(main())
