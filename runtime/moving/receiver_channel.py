"""The source's way to a receiver: its address as people write it, a process of ssh, the requests over its
standard streams, where every wait has an end, and the destination of a bundle that goes straight there.

A receiver can be silent, drip, or never read. Knows nothing of sessions.
"""

from __future__ import annotations

import io
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Self, cast

from holdfast.base import ssh_command
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, MoveFailed
from holdfast.runtime.moving import move_wire
from holdfast.runtime.moving.move_wire import WireBroken
from holdfast.snapshots.bundle.endpoints import BlobDescriptor

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_FORM = re.compile(r"(?:ssh://)?((?:[\w.+-]+@)?(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]))(?::(\d{1,5}))?/?", re.ASCII)
STUCK = 600.0
"""Seconds in which some of the sent data must be taken: disks can be slow, and networks busy."""
_BLOCK = 1 << 20
_ENDING = 5.0
"""Seconds for ssh to end after its input has."""
GREETING = 120.0
"""Seconds to log in and start the receiver; a password possibly has to be typed."""
ANSWER = 600.0
"""Seconds to answer a request; an earlier receiver can be starting the same session, which takes 300."""
STARTING = 3600.0
"""Seconds to start a session: reading its memory, a terabyte in an hour."""
_LONG = {"start": STARTING, "import": 6 * STARTING, "fetch": 6 * STARTING}
"""Those that read everything; a person can interrupt the last two."""
_NOT_FOUND = 127
"""The exit code of a shell for a command that does not exist."""


@dataclass(frozen=True, slots=True)
class ReceiverAddress:
    """A machine that ssh reaches, and how `holdfast` is called there."""

    host: str
    port: int | None = None
    remote_command: str = "holdfast"

    @classmethod
    def parse(cls, text: str, remote_command: str = "holdfast") -> ReceiverAddress:
        """Parse `[USER@]HOST`, or `ssh://[USER@]HOST[:PORT]`.

        Raises:
            InvalidArgument: it has another form, or the command is empty.
        """
        found = _FORM.fullmatch(text)
        if found is None or text.startswith("-") or found[1].startswith("-"):
            raise InvalidArgument(
                f"cannot move to '{plain(text, 100)}': it is not a machine",
                hint="[USER@]HOST as ssh knows it, or ssh://[USER@]HOST:PORT",
            )
        port = int(found[2]) if found[2] else None
        if port is not None and not (text.startswith("ssh://") and 0 < port < 65536):
            raise InvalidArgument(
                f"cannot move to '{plain(text, 100)}': it has a port that ssh would not understand",
                hint="write ssh://[USER@]HOST:PORT",
            )
        if not remote_command.strip():
            raise InvalidArgument("cannot move: the remote command is empty")
        host = found[1].replace("[", "").replace("]", "")
        return cls(host, port, remote_command)

    def command(self, environment: Mapping[str, str]) -> list[str]:
        """Return the command that starts the receiver: ssh with `-p PORT` if there is one, the host, and a
        shell command.

        Raises:
            InvalidArgument: HOLDFAST_SSH is not a command.
        """
        ssh = ssh_command.chosen(environment) or ["ssh", *ssh_command.ALIVE]
        port = ["-p", str(self.port)] if self.port is not None else []
        return [*ssh, *port, self.host, f"{self.remote_command} receive"]


class PatientReader(io.RawIOBase):
    """A pipe that is read until a deadline; an answer can arrive in pieces by then."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__()
        self._pipe = pipe
        self._seconds, self._until = 0.0, 0.0

    def allow(self, seconds: float) -> None:
        """Set the remaining time for reading."""
        self._seconds, self._until = seconds, time.monotonic() + seconds

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read the available bytes.

        Raises:
            WireBroken: nothing came in time.
        """
        view = memoryview(buffer)
        if not _ready(self._pipe.fileno(), select.POLLIN, self._until - time.monotonic()):
            raise WireBroken(f"it has not answered for {self._seconds:g} s")
        data = os.read(self._pipe.fileno(), len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the pipe."""
        self._pipe.close()
        super().close()


class PatientWriter:
    """A pipe that is written to as long as it keeps accepting data."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> None:
        """Write all the data.

        Raises:
            WireBroken: the other side has ended, or takes nothing.
        """
        view = memoryview(data)
        while view:
            if not _ready(self._pipe.fileno(), select.POLLOUT, STUCK):
                raise WireBroken(f"it has not read anything for {STUCK:g} s")
            try:
                view = view[os.write(self._pipe.fileno(), view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise WireBroken("the connection ended") from error

    def close(self) -> None:
        """Close the pipe."""
        with suppress(OSError):
            self._pipe.close()


def _ready(descriptor: int, event: int, seconds: float) -> bool:
    """Wait until a pipe is ready, or broken, as the next call reports; false after the time limit."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0, int(seconds * 1000))))


class ReceiverChannel:
    """A connection; a context manager. Its errors are `move_wire`'s, except when it is made."""

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
            hint=f"see the output of `ssh {host} {self._address.remote_command} --version`",
        )


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start a process that ignores Ctrl-C: the source decides the fate of the move, and must reach it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class ReceiverDestination:
    """A receiver as a destination; `source` is its name for this machine.

    Attributes:
        kept: True if it keeps imported files, so that the next bundle can refer to them.
        stacks: True if it remembers the layers of a container, so that they can arrive one by one.
    """

    def __init__(self, receiver: ReceiverChannel, source: str) -> None:
        self._receiver = receiver
        self._source = source
        self.kept = self.stacks = False

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return how many of these layers, from the lowest, the receiver's engine has."""
        found = self._receiver.ask("layers", diff_ids=list(diff_ids))
        return move_wire.count_of(found, "there", len(diff_ids))

    def has(self, blob: BlobDescriptor) -> bool:
        """Return whether an earlier attempt, or an earlier bundle, brought the part."""
        return self._receiver.ask("has", digest=blob.digest, size=blob.size).get("has") is True

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Send it."""
        self._receiver.put(blob.digest, blob.size, data)

    def finish(self, index: bytes) -> str:
        """Send the index, and have the bundle imported. Return its id there."""
        found = self._receiver.ask("import", index, source=self._source)
        self.kept = found.get("kept") is True
        self.stacks = found.get("stacks") is True
        return plain(str(found.get("snapshot")), 100)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Do nothing: the channel is the caller's."""
