"""One request to the supervisor of a session, over one connection.

A connection is disposable: losing it changes nothing in the session. Calls that continue across connections
are in `shell_calls` and `kernel_calls`. Nothing the guest sends is trusted: frames have limits, fields are
checked where they are read, errors come from a closed table.
"""

from __future__ import annotations

import contextlib
import select
import sys
import time
from collections.abc import Iterator

from holdfast.base import run_dir
from holdfast.base.request_id import request_id
from holdfast.base.text import plain
from holdfast.errors import (
    CommandNotFound,
    GuestDisconnected,
    GuestError,
    HoldfastError,
    InvalidArgument,
    JobNotFound,
    KernelDied,
    KernelNotFound,
    OutcomeUnknown,
    PortClosed,
    ProgramNotFound,
    ProtocolError,
    SessionBusy,
    SessionFileDenied,
    SessionFileError,
    SessionFileNotFound,
    ShellNotFound,
)
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.reconnect import Silence

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Any

# The supervisor answers in milliseconds; only a snapshot delays it.
ANSWER_SECONDS = 30.0
# Seconds to wait for the rest of a frame. Frames are sent at once, and a capture hangs up.
FRAME_SECONDS = 30.0
# Limits of a reply that ends: a supervisor keeps 64 MiB of journal, and as much of what a
# job wrote; frames add to it. Seconds are the time waited for it.
MAX_ANSWER_FRAMES = 200_000
MAX_ANSWER_BYTES = 80 << 20
WHOLE_SECONDS = 120.0
LOOK_UP = 1.0  # seconds between two looks whether a signal came
_BOTH_WAYS = 2  # SHUT_RDWR of shutdown(2)
ENDLESS = "cannot understand the session: its answer does not end"
# Errors the guest may name. Any other code is a GuestError with its text.
ERRORS: dict[str, type[HoldfastError]] = {
    "busy": SessionBusy,
    "held": SessionBusy,
    "in_use": SessionBusy,
    "bad_request": InvalidArgument,
    "invalid": InvalidArgument,
    "kernel_died": KernelDied,
    "key_conflict": InvalidArgument,
    "line_too_long": InvalidArgument,
    "file": SessionFileError,
    "file_denied": SessionFileDenied,
    "no_file": SessionFileNotFound,
    "not_a_file": SessionFileError,
    "outcome_unknown": OutcomeUnknown,
    "port_closed": PortClosed,
    "protocol": ProtocolError,
    "unknown_exec": CommandNotFound,
    "unknown_kernel": KernelNotFound,
    "unknown_program": ProgramNotFound,
    "unknown_shell": ShellNotFound,
    "unknown_spec": KernelNotFound,
    "unknown_job": JobNotFound,
}


NEW_SUPERVISOR = "everything else works as before; new sessions can do it"
HINTS = {
    "unknown_job": "`holdfast jobs S` lists the known jobs",
    "unknown_op": f"an older version of Holdfast made the session; {NEW_SUPERVISOR}",
    "in_use": "`--force` closes it anyway",
    "unknown_shell": "`holdfast shells S` lists them, `shells S open NAME` opens one",
    "line_too_long": "send it in shorter lines, or have `exec` write it to a file (a here-document)",
    "unknown_spec": "`holdfast kernels SESSION` lists them",
    "busy": "a command or cell waits with `--busy-wait SECONDS`",
    "held": "`holdfast lease S` shows who it is; a command waits with `--lease-wait SECONDS`",
}


class Connection:
    """An open connection: frames out, events in."""

    def __init__(self, sock: socket.socket, judge: Callable[[float], bool] | None = None) -> None:
        """Wrap a connected socket. `judge` is asked about silence: see `Silence`."""
        self.socket = sock
        self.silence = Silence(judge)
        self.is_wanted_elsewhere: Callable[[], bool] | None = None
        """Asked every second while nothing comes: true ends the wait as if its time were over."""
        self._reader = protocol.FrameReader()
        self._waited = 0.0
        self._received = 0

    def send(self, head: dict[str, Any], payload: bytes = b"") -> None:
        """Send one frame.

        Raises:
            GuestDisconnected: the connection is lost.
            InvalidArgument: the frame is larger than the protocol allows.
        """
        try:
            data = protocol.encode(Frame(head, payload))
        except protocol.FrameError as error:
            raise InvalidArgument(f"cannot send to the session: {error}") from error
        sys.audit("holdfast.asks", id(self), "session", head.get("op"))
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise _lost(error) from error

    def receive(self) -> list[Frame]:
        """Wait for bytes and return the frames they complete, possibly none.

        Raises:
            GuestDisconnected: the connection is lost, or nothing came within its timeout.
            ProtocolError: the bytes do not follow the protocol.
        """
        data = self._rest() if self._reader.pending else self._bytes()
        self.silence.heard()
        if not data:
            raise GuestDisconnected("cannot continue: the session closed the connection")
        try:
            found = self._reader.feed(data)
        except protocol.FrameError as error:
            raise ProtocolError(f"cannot understand the session: {plain(str(error), 200)}") from error
        self._received += len(data)
        if found:
            self._waited = 0.0
        return found

    def _bytes(self) -> bytes:
        try:
            self._await(self.socket.gettimeout())
            return self.socket.recv(1 << 18)
        except OSError as error:
            raise _lost(error) from error

    def _await(self, patience: float | None) -> None:
        """Wait for bytes, but wake up every second, so that no signal or death is missed.

        A signal that arrives just before a system call does not interrupt it, and Python runs its handler
        when that has returned: Ctrl-C would have no effect while a command is silent.

        Raises:
            TimeoutError: none came within its patience.
        """
        arrival = select.poll()
        arrival.register(self.socket, select.POLLIN)
        until = None if patience is None else time.monotonic() + patience
        while True:
            left = LOOK_UP if until is None else min(LOOK_UP, max(0.0, until - time.monotonic()))
            if arrival.poll(left * 1000):
                return
            if until is not None and time.monotonic() >= until:
                raise TimeoutError
            if (
                self.is_wanted_elsewhere is not None
                and not self._reader.pending
                and self.is_wanted_elsewhere()
            ):
                raise TimeoutError
            self.silence.look()

    def _rest(self) -> bytes:
        """Read the rest of a frame that has begun; it has less time than a new one."""
        left, patience, began = FRAME_SECONDS - self._waited, self.socket.gettimeout(), time.monotonic()
        if left <= 0:
            raise ProtocolError("cannot understand the session: it does not complete a frame")
        self.socket.settimeout(left if patience is None else min(left, patience))
        try:
            return self._bytes()
        except GuestDisconnected as error:
            # A caller with less patience than that sees silence, as if no frame had begun.
            if isinstance(error.__cause__, TimeoutError) and (patience is None or left < patience):
                self._waited = FRAME_SECONDS
                return self._rest()
            raise
        finally:
            self._waited += time.monotonic() - began
            self.socket.settimeout(patience)

    def events(self, *, bounded: bool = False) -> Iterator[Frame]:
        """Yield all events up to the last one, which is raised if it is an error.

        `bounded`: they are one reply; reading stops when a supervisor sends more than any reply has, or takes
        longer.
        """
        count, before, left = 0, self._received, WHOLE_SECONDS
        while True:
            if bounded:
                self.socket.settimeout(max(left, 0.001))
            began = time.monotonic()
            try:
                found = self.receive()
            except GuestDisconnected as error:
                # A frame that began and then stopped is more than silence.
                if bounded and self._received > before and isinstance(error.__cause__, TimeoutError):
                    raise ProtocolError(ENDLESS) from error
                raise
            left -= time.monotonic() - began
            if bounded and left <= 0:
                raise ProtocolError(ENDLESS)
            for frame in found:
                raise_error(frame)
                count += 1
                if bounded and (count > MAX_ANSWER_FRAMES or self._received - before > MAX_ANSWER_BYTES):
                    raise ProtocolError(ENDLESS)
                yield frame
                if wire_fields.flag(frame, "end"):
                    return

    def ask(self, op: str, payload: bytes = b"", **args: Any) -> Frame:
        """Send a request and return the first event of the reply."""
        self.send(protocol.request(op, args), payload)
        for frame in self.events():
            sys.audit("holdfast.answered", id(self))
            return frame
        raise ProtocolError("cannot understand the session: it did not answer")

    def await_close(self) -> None:
        """Wait until the supervisor has hung up; drop its remaining output.

        Raises:
            GuestDisconnected: it does not hang up.
        """
        deadline = time.monotonic() + ANSWER_SECONDS
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                if not self.socket.recv(1 << 16):
                    return
        except ConnectionError:
            return
        except OSError as error:
            raise _lost(error) from error
        raise GuestDisconnected("cannot continue: the session does not close the connection")

    def hang_up(self) -> None:
        """End the connection from a thread other than the reading one, which then finds it lost."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(_BOTH_WAYS)

    def close(self) -> None:
        """Hang up."""
        self.socket.close()
        sys.audit("holdfast.answered", id(self))

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class GuestClient:
    """A client of the supervisor behind the socket in a session's folder, for one actor."""

    def __init__(
        self,
        folder: Path | str,
        actor: str | None = None,
        reason: str | None = None,
        judge: Callable[[float], bool] | None = None,
    ) -> None:
        """Prepare. Without `judge`, only each request's own limit bounds a silence."""
        self._folder = folder
        self._judge = judge
        given = (("actor", actor), ("reason", reason), ("request", request_id()))
        self.who = {key: value for key, value in given if value is not None}
        self._sent: set[str] = set()

    def connect(self) -> Connection:
        """Open a connection without sending anything yet: losing it is harmless.

        Raises:
            GuestDisconnected: nothing listens.
        """
        return Connection(run_dir.connect(self._folder, defaults.SOCKET_NAME, ANSWER_SECONDS), self._judge)

    def answers(self, seconds: float) -> bool:
        """Check, over a connection of its own, whether the supervisor answers within that time."""
        with contextlib.suppress(GuestError):
            with Connection(run_dir.connect(self._folder, defaults.SOCKET_NAME, seconds)) as connection:
                connection.ask("moment")
            return True
        return False

    def open(self, op: str, payload: bytes = b"", **args: Any) -> Connection:
        """Connect and send one request; the caller reads the events, which can take any time."""
        connection = self.connect()
        try:
            connection.send(protocol.request(op, {**self.who, **self._once(args)}), payload)
            connection.socket.settimeout(None)
        except BaseException:
            connection.close()
            raise
        return connection

    def call(self, op: str, *, payload: bytes = b"", **args: Any) -> Iterator[Frame]:
        """Yield the events of a request whose reply can take any time, but ends.

        Raises:
            GuestDisconnected: the connection could not be made or was lost; the request can still continue.
            GuestError: the supervisor refused.
        """
        with self.open(op, payload, **args) as connection:
            yield from connection.events(bounded=True)

    def request(self, op: str, *, payload: bytes = b"", **args: Any) -> Frame:
        """Send a request and return its only event; raises as `call` does."""
        with self.connect() as connection:
            return connection.ask(op, payload, **{**self.who, **self._once(args)})

    def _once(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments, with a mark if the session can already have a request with that id."""
        id_ = args.get("id")
        if id_ in self._sent:
            return {**args, "again": True}
        if isinstance(id_, str):
            self._sent.add(id_)
        return args


def raise_error(frame: Frame) -> None:
    """Raise the error of an `error` event; ignore any other."""
    if wire_fields.event(frame) != "error":
        return
    code = wire_fields.text(frame, "code", "")
    message = plain(wire_fields.text(frame, "message", "no reason given"), 400)
    if code == "version":
        raise _other_version(message)
    kind = ERRORS.get(code, GuestError)
    hint = HINTS.get(code, "")
    raise kind(message if message.startswith("cannot") else f"cannot do that: {message}", hint=hint)


def _other_version(message: str) -> ProtocolError:
    """Return the error for a supervisor that refuses the version of our requests.

    The numbers are in its sentence and in no field: old snapshots have them in that form.
    """
    import re

    found = re.search(r"speaks protocol (\d{1,9})(?:, not (\d{1,9}))?\b", message)
    if found is None:
        return ProtocolError(
            "cannot use the session: a newer version of Holdfast made its supervisor", hint="upgrade Holdfast"
        )
    theirs, ours = int(found[1]), int(found[2] or protocol.VERSION)
    if theirs < ours:
        return ProtocolError(
            "cannot do that in this session: an older version of Holdfast made its supervisor "
            f"(protocol {theirs}; it takes {ours})",
            hint=NEW_SUPERVISOR,
        )
    return ProtocolError(
        "cannot use the session: a newer version of Holdfast made its supervisor "
        f"(protocol {theirs}; this one speaks {ours})",
        hint="upgrade Holdfast",
    )


def _lost(error: OSError) -> GuestDisconnected:
    if isinstance(error, TimeoutError):
        return GuestDisconnected("cannot continue: the session does not answer")
    return GuestDisconnected(
        f"cannot continue: the connection to the session was lost ({error.strerror or error})"
    )
