"""Changes of a session's files as they happen, across lost connections.

Owns the connection and the number of the last change that was received; each batch is confirmed before the
session sends the next one, so that no more than that waits here.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import GuestDisconnected, HoldfastError, ProtocolError
from holdfast.runtime.files import file_event
from holdfast.runtime.files.file_event import FileEvent, Places
from holdfast.runtime.files.session_file import asked
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import Connection, raise_error

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

_SOON = 0.001
"""Seconds; a timeout of 0 would mean not to wait for what is there already."""


class FileWatch:
    """An iterator over the changes of a file or folder. Close it, or use it in `with`."""

    def __init__(
        self,
        line: SessionChannel,
        path: str,
        user: str | None = None,
        *,
        recursive: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Begin to watch: what changes from now on will be reported.

        Raises:
            SessionFileError: it does not exist, or may not be read.
            GuestError: it has too many folders.
        """
        self._line = line
        self._client = line.client()
        self._path = path
        self._args: dict[str, Any] = {"id": secrets.token_hex(16), "recursive": recursive}
        if user is not None:
            self._args["user"] = user
        self._until = None if timeout is None else time.monotonic() + timeout
        self._places: Places | None = None
        self._last = 0
        self._events: deque[FileEvent] = deque()
        self._connection: Connection | None = None
        self._over = False
        self._persistently(self._connect)

    def __enter__(self) -> FileWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self._hang_up()

    def __iter__(self) -> FileWatch:
        return self

    def __next__(self) -> FileEvent:
        """Return the next change; iteration ends with the time limit, or when what is watched is gone."""
        late = self._until is not None and time.monotonic() >= self._until
        event = None if late else self._next(self._until)
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: float) -> FileEvent | None:
        """Return the next change, or None if there is none within `timeout` seconds."""
        until = time.monotonic() + timeout
        return self._next(until if self._until is None else min(until, self._until))

    @property
    def path(self) -> str:
        """What is watched: an absolute path without links."""
        return self._path

    @property
    def over(self) -> bool:
        """Whether there will be no more changes because what was watched is gone."""
        return self._over and not self._events

    def close(self) -> None:
        """Stop watching."""
        ended, self._over = self._over, True
        lost = self._connection is None or self._connection.is_lost()
        self._hang_up()
        if lost and not ended and self._places is not None:
            # A capture has disconnected it, and the session would wait for it to come back.
            with suppress(HoldfastError):
                end = {"id": self._args["id"], "end": True}
                self._line.persistence().run(lambda: self._client.request("file_watch", **end))

    def _next(self, until: float | None) -> FileEvent | None:
        if not self._events and not self._over:
            self._persistently(lambda heard: self._receive(heard, until))
        return self._events.popleft() if self._events else None

    def _persistently(self, attempt: Callable[[Callable[[], None]], None]) -> None:
        persistence = self._line.persistence()
        persistence.again = lambda: None  # the session itself says that it has lost the watch
        try:
            with self._line.explained():
                persistence.run(lambda: attempt(persistence.heard))
        except BaseException:
            self._hang_up()
            raise

    def _connect(self, heard: Callable[[], None]) -> None:
        """Make a connection, and find the watch by its id if there was one before."""
        begun = {"begun": True} if self._places is not None else {}
        connection = self._connection = self._client.connect()
        head = {"v": protocol.VERSION, "op": "file_watch", **self._client.who, **self._args, **begun}
        try:
            connection.send({**head, "after": self._last}, asked(path=self._path))
            found: list[Frame] = []
            while not found:
                found = connection.receive()
            raise_error(found[0])
            if wire_fields.event(found[0]) != "watching":
                raise ProtocolError("cannot understand the session: it does not say what it watches")
            places = file_event.places(found[0])
            if self._places is None:
                self._places, self._path = (
                    places,
                    places.watched,
                )  # the shell may have another directory later
            heard()
            for frame in found[1:]:
                self._hear(frame)
        except BaseException:
            self._hang_up()
            raise

    def _receive(self, heard: Callable[[], None], until: float | None) -> None:
        """Wait for the next changes, or the end."""
        while not self._events and not self._over:
            if self._connection is None:
                self._connect(heard)
                continue
            connection = self._connection
            left = None if until is None else until - time.monotonic()
            connection.socket.settimeout(None if left is None else max(left, _SOON))
            try:
                for frame in connection.receive():
                    heard()
                    self._hear(frame)
            except GuestDisconnected as error:
                if isinstance(error.__cause__, TimeoutError):
                    return
                self._hang_up()
                raise
            if until is not None and time.monotonic() >= until:
                return

    def _hear(self, frame: Frame) -> None:
        raise_error(frame)
        kind = wire_fields.event(frame)
        if kind == "gone":
            self._over = True
        elif kind == "changes" and self._places is not None and not self._over and not self._events:
            self._events.extend(file_event.changes(frame, self._places, self._last))
            self._last = self._events[-1].seq
            self._confirm()
        else:
            raise ProtocolError("cannot understand the session: it sends changes that were not asked for")

    def _confirm(self) -> None:
        if self._connection is not None:
            # If the connection is lost, the next one says the same.
            with suppress(GuestDisconnected):
                self._connection.send({"op": "received", "seq": self._last})

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
