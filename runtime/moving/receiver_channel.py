"""The source's connection to a receiver: a process of ssh, and the requests over its standard streams.

A receiver that is silent holds no session up for good: each request has its time, after which the connection
is lost.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any, BinaryIO, Self, cast

from holdfast.errors import MoveFailed
from holdfast.runtime.moving import move_wire
from holdfast.runtime.moving.move_wire import WireBroken
from holdfast.runtime.moving.patient_pipes import PatientReader, PatientWriter
from holdfast.runtime.moving.receiver_address import ReceiverAddress

_BLOCK = 1 << 20
_ENDING = 5.0
"""Seconds for ssh to end after its input has."""
GREETING = 120.0
"""Seconds to log in and start the receiver; a password may have to be typed."""
ANSWER = 600.0
"""Seconds to answer a request; another receiver may be starting the same session, which takes 300."""
STARTING = 3600.0
"""Seconds to start a session: reading its memory, a terabyte in an hour."""
_LONG = {"start": STARTING, "import": 6 * STARTING, "fetch": 6 * STARTING}
"""Those that read everything; a person can interrupt the last two."""
_NOT_FOUND = 127
"""What a shell returns for a command that does not exist."""


class ReceiverChannel:
    """A connection; a context manager. Its errors are those of `move_wire`, except when it is made."""

    def __init__(self, address: ReceiverAddress) -> None:
        self._address = address

    def __enter__(self) -> Self:
        command = self._address.command(os.environ)
        try:
            with _interrupts_ignored():
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
        except OSError as error:
            raise MoveFailed(
                f"cannot reach {self._address.host}: {command[0]}: {error.strerror or error}",
                hint="install an ssh client",
            ) from error
        self._to = PatientWriter(cast("IO[bytes]", self._process.stdin))
        self._patience = PatientReader(cast("IO[bytes]", self._process.stdout))
        self._from = cast("BinaryIO", io.BufferedReader(self._patience))
        self._patience.allow(GREETING)
        try:
            self.version = move_wire.read_greeting(self._from)
        except WireBroken as error:
            self._close()
            raise self._no_receiver(error) from error
        except BaseException:
            self._close()
            raise
        return self

    def ask(self, do: str, payload: bytes = b"", **fields: Any) -> Mapping[str, Any]:
        """Send a request and return the reply.

        Raises:
            Refused: the receiver refused.
            WireBroken: the connection is lost.
        """
        sized = {"bytes": len(payload)} if payload else {}
        self._to.write(move_wire.line({"do": do, **sized, **fields}) + payload)
        self._patience.allow(_LONG.get(do, ANSWER))
        return move_wire.reply(move_wire.read_line(self._from))

    def put(self, digest: str, size: int, data: BinaryIO) -> None:
        """Send a part, `size` bytes of `data`. The next request reports its failure.

        Raises:
            WireBroken: the connection is lost.
        """
        self._to.write(move_wire.line({"do": "put", "digest": digest, "size": size, "bytes": size}))
        left = size
        while left:
            block = data.read(min(left, _BLOCK))
            assert block, "a part is as large as its descriptor says"
            self._to.write(block)
            left -= len(block)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> int:
        """End the connection; return the exit code of ssh."""
        for stream in (self._to, self._from):
            with suppress(OSError):
                stream.close()
        try:
            return self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.terminate()
        try:
            return self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _no_receiver(self, error: WireBroken) -> MoveFailed:
        code, host = self._process.returncode, self._address.host
        if code == _NOT_FOUND:
            return MoveFailed(
                f"cannot reach Holdfast at {host}: there is no command {self._address.remote_command}",
                hint="install it there, or name it with --remote-command /path/to/holdfast",
            )
        ended = f", and ended with {code}" if code else ""
        return MoveFailed(
            f"cannot reach Holdfast at {host}: {error}{ended}",
            hint=f"see what `ssh {host} {self._address.remote_command} --version` says",
        )


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start a process that ignores Ctrl-C: the source decides what becomes of the move, and must reach it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
