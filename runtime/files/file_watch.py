"""A watch of files of one session, which continues across captures and lost connections.

The session keeps no state for it: on each new connection it reports everything, and the changes since the
last report are found here.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import GuestDisconnected, ProtocolError
from holdfast.runtime.files.file_tree import (
    MOST_BYTES,
    FileTree,
    TreeChange,
    WatchedChange,
    change_weight,
    folder_in,
)
from holdfast.runtime.files.session_file import asked, listed_in, place_in
from holdfast.runtime.guest_rpc import guest_client, wire_fields
from holdfast.runtime.guest_rpc.patience import Patience

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.runtime.files.watch_budget import WatchShare
    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.guest_client import Connection
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

_ARRIVING = re.compile(r"/\.[0-9a-f]{32}\.part\Z")
"""Paths of files that a session receives; what a program writes is not called that."""


class FileWatch:
    """Changes in one folder, or of one file; an iterator that waits for the next one. To be closed.

    It has begun when it exists. It ends when the watched file or folder is removed or renamed; `ended` is
    true then.
    """

    def __init__(
        self,
        channel: SessionChannel,
        path: str,
        *,
        recursive: bool = False,
        user: str | None = None,
        timeout: float | None = None,
        patience: Patience | None = None,
        most: int = MOST_BYTES,
        share: WatchShare | None = None,
    ) -> None:
        """Begin; the iteration ends after `timeout` seconds, or when the patience is ended.

        It keeps at most `most` bytes about the files, and fails when there are too many. `share` is its
        part of the memory of all watches of a process, which is closed with it.
        """
        self._most, self._share = most, share
        self._patience = patience or Patience()
        self._channel = channel
        self._args: dict[str, Any] = {"recursive": recursive, **({} if user is None else {"user": user})}
        self._asked = path
        self._until = None if timeout is None else time.monotonic() + timeout
        self._tree: FileTree | None = None
        self._report: FileTree | None = None
        self._changes: deque[WatchedChange] = deque()
        self._waiting = 0
        """Bytes of the changes not yet taken."""
        self._connection: Connection | None = None
        self.path = path
        """The absolute path of the watched folder or file, without links."""
        self._root = ""
        self.ended = False
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[WatchedChange]:
        """Yield changes until the watched folder or file is removed, or the time is over."""
        while (change := self.next(None)) is not None:
            yield change

    def next(self, timeout: float | None) -> WatchedChange | None:
        """Return the next change; None after `timeout` seconds without one, or once the watch has ended.

        Raises:
            SessionError: the session has ended, or was suspended.
            SessionFileNotFound: the watched path had been removed when the connection was made again.
        """
        ends = [] if timeout is None else [time.monotonic() + timeout]
        ends += [] if self._until is None else [self._until]
        left = None
        while not self._changes and not self.ended and not self._patience.ended:
            if left is not None and left <= 0:
                return None
            left = min(ends) - time.monotonic() if ends else None
            try:
                self._receive(None if left is None else max(left, 0.001))
            except GuestDisconnected as error:
                if isinstance(error.__cause__, TimeoutError) or self._patience.ended:
                    return None
                self._connect()
        if not self._changes:
            return None
        change = self._changes.popleft()
        self._waiting -= change_weight(change)
        return change

    def close(self) -> None:
        """End the watch."""
        self.ended = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._share is not None:
            self._share.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> None:
        reconnection = self._channel.reconnection()
        reconnection.again = lambda: None  # after a rewind the difference is what it undid
        with self._channel.explained():
            reconnection.run(self._open)

    def _open(self) -> None:
        """Make a connection, and process the session's first report."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._channel.client().open("file_watch", asked(path=self._asked), **self._args)
        self._patience.hold(self._connection)
        self._report, ends = FileTree(self._most), time.monotonic() + guest_client.WHOLE_SECONDS
        while self._report is not None and not self.ended:
            if time.monotonic() >= ends:
                raise ProtocolError(guest_client.ENDLESS)
            self._receive(guest_client.ANSWER_SECONDS)

    def _receive(self, seconds: float | None) -> None:
        """Wait for frames, and process them."""
        assert self._connection is not None
        self._connection.socket.settimeout(seconds)
        for frame in self._connection.receive():
            guest_client.raise_error(frame)
            self._take(frame)
            if self._share is not None:
                trees = (each.bytes for each in (self._tree, self._report) if each is not None)
                self._share.hold(self._waiting + sum(trees))

    def _take(self, frame: Frame) -> None:
        kind, report, tree = wire_fields.event(frame), self._report, self._tree
        if kind == "content":  # of a new connection; or the kernel dropped events
            self._report = self._begin(wire_fields.body(frame))
        elif kind == "folder" and report is not None:
            deque(self._folder(report, frame), maxlen=0)
        elif kind == "folder" and tree is not None:
            self._add(self._folder(tree, frame))
        elif kind == "watched" and report is not None:
            self._report = None
            if tree is None:
                self._tree = report
            else:
                self._add(tree.forget_all_but(report))
        elif kind == "changes" and report is None and tree is not None:
            for told in wire_fields.rows({"changes": wire_fields.json_of(frame)}, "changes"):
                self._add(self._one(tree, told))
        elif kind == "gone":
            self._found(WatchedChange("removed", self.path))
            self.close()
        else:
            raise ProtocolError("cannot understand the session: its report of files lacks a part")

    def _begin(self, told: Mapping[str, Any]) -> FileTree:
        self._root = place_in(told).rstrip("/")
        self.path = f"{self._root}/{wire_fields.optional_text(told, 'name') or ''}".rstrip("/") or "/"
        self._asked = self.path
        return FileTree(self._most)

    @staticmethod
    def _folder(tree: FileTree, frame: Frame) -> Iterator[TreeChange]:
        told = wire_fields.body(frame)
        files = listed_in(told.get("files"), set())
        return tree.replace(folder_in(told), files, more=wire_fields.flag(told, "more"))

    @staticmethod
    def _one(tree: FileTree, told: Mapping[str, Any]) -> Iterator[TreeChange]:
        name, facts = wire_fields.text(told, "name"), told.get("facts")
        (file,) = listed_in([facts], set()) if facts is not None else (None,)
        if file is not None and file.name != name:
            raise ProtocolError("cannot understand the session: a change names a different file")
        written, moved = (wire_fields.flag(told, each) for each in ("written", "moved"))
        return tree.change(folder_in(told), name, file, written=written, moved=moved)

    def _add(self, changes: Iterator[TreeChange]) -> None:
        for kind, path, *how in changes:
            file = None if kind == "removed" or self._tree is None else self._tree.file(path)
            self._found(WatchedChange(kind, f"{self._root}/{path}", file, *how))

    def _found(self, change: WatchedChange) -> None:
        if _ARRIVING.search(change.path):
            return
        self._changes.append(change)
        self._waiting += change_weight(change)
        if self._waiting > self._most:
            raise ProtocolError(
                "cannot watch files of the session: too many changes at one time", hint="watch a part of them"
            )
