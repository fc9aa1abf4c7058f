"""The caller's end of a command line that runs next to a remote engine: its streams and signals, passed on.

The connection to the engine goes through SSH or TLS and ends with its block.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal
from urllib.parse import urlsplit

from holdfast.base import ssh_command
from holdfast.base.text import plain
from holdfast.engine import exec_stream
from holdfast.engine.engine import Engine
from holdfast.engine.engine_place import SOCKET, EnginePlace
from holdfast.engine.exec_stream import ExecStream
from holdfast.errors import EngineUnavailable, InvalidArgument
from holdfast.runtime.attachment import own_terminal as local_terminal
from holdfast.runtime.remote import relay_frames
from holdfast.runtime.remote.relay_frames import frame, frames
from holdfast.runtime.terminal.safe_output import BELOW, LEAVE

IMPATIENCE = 3
"""How many signals it takes to end this side, whatever the other does."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KEPT = 2000
_HINT = "see its outcome with `holdfast ls` and `holdfast journal`; running sessions are not affected"
Kind = Literal["none", "pipe", "terminal"]
INPUT, OUTPUT, ERRORS = 0, 1, 2


class Relay:
    """One command line while it runs elsewhere."""

    def __init__(self, stream: ExecStream, streams: CallerStreams) -> None:
        self._stream = stream
        self._streams = streams
        self._frames = frames()
        self._credit = relay_frames.CREDIT
        self._reads = streams.input != "none"
        self._signals = 0
        self._heard = time.monotonic()
        self._complaint = b""

    def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run it, and return its exit code.

        Raises:
            EngineUnavailable: the connection was lost, or the controller there has failed.
            KeyboardInterrupt: signals came again and again.
        """
        wanted = {"arguments": arguments, "environment": environment, **self._streams.described}
        caught = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        with self._streams.raw(), local_terminal.signals((signal.SIGWINCH, *caught)) as wake:
            try:
                self._send(relay_frames.BEGIN, json.dumps(wanted).encode())
                while (code := self._turn(wake)) is None:
                    pass
            except EOFError as error:
                raise self._lost(error) from error
        return code

    def _turn(self, wake: int) -> int | None:
        """Wait for data, and pass them on; return the exit code when it comes."""
        ready = self._wait(wake)
        if wake in ready:
            self._pass_signals(os.read(wake, 64))
        if INPUT in ready:
            self._pass_input()
        for number, data in self._stream.receive() if self._stream.fileno() in ready else ():
            if number == exec_stream.ERRORS:
                self._complaint = (self._complaint + data)[-_KEPT:]
                continue
            for kind, body in self._frames.feed(data):
                if kind == relay_frames.EXIT:
                    return int(body)
                self._received(kind, body)
        return None

    def _wait(self, wake: int) -> list[int]:
        watched = [wake, self._stream.fileno(), *([INPUT] if self._reads and self._credit else [])]
        ready, _, _ = select.select(watched, [], [], relay_frames.SILENCE_SECONDS)
        if self._stream.fileno() in ready:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > relay_frames.SILENCE_SECONDS:
            raise EOFError("its machine does not answer")
        return ready

    def _received(self, kind: bytes, body: bytes) -> None:
        if kind == relay_frames.TAKEN:
            self._credit += int(body)
        elif kind == relay_frames.OUTPUT:
            local_terminal.write(OUTPUT, body)
        elif kind == relay_frames.ERRORS:
            local_terminal.write(ERRORS, body)

    def _pass_input(self) -> None:
        try:
            data = os.read(INPUT, min(self._credit, relay_frames.PIECE))
        except OSError:  # EIO: the terminal is gone
            data = b""
        self._credit -= len(data)
        self._reads = bool(data)
        self._send(relay_frames.INPUT, data)

    def _pass_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGWINCH:
                self._send(relay_frames.SIZE, json.dumps(local_terminal.size(OUTPUT)).encode())
                continue
            self._signals += 1
            if self._signals == IMPATIENCE:
                raise KeyboardInterrupt
            self._send(relay_frames.SIGNAL, signal.Signals(number).name.encode())

    def _send(self, kind: bytes, body: bytes) -> None:
        self._stream.send(frame(kind, body))

    def _lost(self, error: EOFError) -> EngineUnavailable:
        lines = [line for line in self._complaint.decode("utf-8", "replace").splitlines() if line.strip()]
        why = plain(lines[-1], 300) if lines else str(error) or "the connection was lost"
        return EngineUnavailable(f"cannot follow the command on the engine's machine: {why}", hint=_HINT)


@dataclass(frozen=True, slots=True)
class CallerStreams:
    """The kinds of the three streams; terminals become one terminal on the other side."""

    input: Kind
    output: Kind
    errors: Kind

    @classmethod
    def of_process(cls, *, reads: bool) -> CallerStreams:
        """Look at the streams of this process.

        Args:
            reads: whether the command reads standard input even when that is not a terminal.
        """
        output, errors = _kind(OUTPUT), _kind(ERRORS)
        if output == "terminal" and os.isatty(INPUT):
            # Who reads from a terminal in the background is stopped, see tcgetpgrp(3).
            return cls("terminal" if os.tcgetpgrp(INPUT) == os.getpgrp() else "none", output, errors)
        return cls("pipe" if reads else "none", output, errors)

    @property
    def described(self) -> dict[str, object]:
        """The streams, and the size of the terminal, for the doorkeeper."""
        size = local_terminal.size(OUTPUT)
        return {"input": self.input, "output": self.output, "errors": self.errors, "size": size}

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Pass every key on, if the input is a terminal, and restore it at the end."""
        if self.input != "terminal":
            yield
            return
        with local_terminal.raw_keys(INPUT, termios.TCSADRAIN):
            try:
                yield
            except EngineUnavailable:
                with suppress(OSError):
                    local_terminal.write(OUTPUT, LEAVE + BELOW)  # what nothing undoes any more
                raise


def _kind(descriptor: int) -> Kind:
    return "terminal" if os.isatty(descriptor) else "pipe"


_OPTIONS = (
    *("-n", "-N", "-T"),
    *("-o", "ExitOnForwardFailure=yes"),
    *ssh_command.ALIVE,
)
_LOOK_SECONDS = 0.02
_PATIENCE_SECONDS = 120.0
"""For a login; ssh itself gives up earlier on a machine that does not answer."""


@contextmanager
def connected(place: EnginePlace, environment: Mapping[str, str] = os.environ) -> Iterator[Engine]:
    """Connect to the engine.

    Raises:
        EngineUnavailable: no engine answers there, or the login failed.
        InvalidArgument: the address is not one, or HOLDFAST_SSH is not a command.
    """
    if not place.url.lower().startswith("ssh://"):
        engine = Engine.reach(place)
        try:
            yield engine
        finally:
            engine.close()
        return
    with _forwarded(place, environment) as path:
        engine = Engine.reach(EnginePlace(f"unix://{path}"))
        try:
            yield engine
        finally:
            engine.close()


def forwarding(place: EnginePlace, local: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the command that forwards a local socket to the engine's, as ssh://[USER@]HOST[:PORT][/SOCKET].

    Raises:
        InvalidArgument: the address is not one, or HOLDFAST_SSH is not a command.
    """
    try:
        parts = urlsplit(place.url)
        port, host = parts.port, parts.hostname
    except ValueError:
        port = host = None
    user = parts.username if host else None
    if not host or host.startswith("-") or (user or "").startswith("-") or parts.password:
        raise InvalidArgument(
            f"cannot reach Docker: its address is not one for ssh{place.named}",
            hint="ssh://[USER@]HOST[:PORT], or with the engine's socket behind it: ssh://HOST/run/docker.sock",
        )
    return [
        *(ssh_command.chosen(environment) or ["ssh"]),
        *_OPTIONS,
        *("-L", f"{local}:{socket_of(place)}"),
        *(("-p", str(port)) if port else ()),
        *(("-l", user) if user else ()),
        host,
    ]


def socket_of(place: EnginePlace) -> str:
    """Return the path of the engine's socket on its machine."""
    path = urlsplit(place.url).path if place.url.lower().startswith("ssh://") else ""
    return SOCKET if path in ("", "/") else path


@contextmanager
def _forwarded(place: EnginePlace, environment: Mapping[str, str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, tempfile.TemporaryFile() as errors:
        local = Path(folder) / "engine"
        command = forwarding(place, local, environment)
        try:
            # Apart from the terminal, or Ctrl-C would end the connection before what it is for.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
            )
        except OSError as error:
            why = f"{plain(command[0], 60)} cannot be run: {error.strerror}"
            raise EngineUnavailable(
                f"cannot reach Docker: {why}",
                hint=f"install OpenSSH, or name a different command in {ssh_command.SSH}",
            ) from error
        try:
            _wait(process, local, place, errors)
            yield local
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], local: Path, place: EnginePlace, errors: IO[bytes]) -> None:
    """Wait until ssh listens, which it does when it has logged in."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as trying:
            trying.connect(str(local))
            return
        time.sleep(_LOOK_SECONDS)
    errors.seek(0)
    said = [line for line in plain_lines(errors.read(4096)) if line]
    why = said[-1] if said else "ssh did not log in"
    raise EngineUnavailable(
        f"cannot reach Docker over SSH{place.named}: {why}",
        hint="`ssh HOST docker version` must work without prompting (a key in an agent, a known host)",
    )


def plain_lines(said: bytes) -> list[str]:
    """Return a program's output, by lines without control characters."""
    return [plain(line, 300).strip() for line in said.decode("utf-8", "replace").splitlines()]
