"""The caller's end of a command line that runs beside a remote engine: its streams and signals, passed on."""

from __future__ import annotations

import json
import os
import select
import signal
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from holdfast.base.text import plain
from holdfast.engine import exec_stream
from holdfast.engine.exec_stream import ExecStream
from holdfast.errors import EngineUnavailable
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
        """Wait for something, and pass it on; return the exit code when it comes."""
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
            raise EOFError("its machine is silent")
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
    """What the three streams are; those that are a terminal are one terminal elsewhere."""

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
