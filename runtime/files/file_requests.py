"""Requests about files of one session. Each continues across captures, and can be repeated without harm."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import HoldfastError, ProtocolError
from holdfast.runtime.files.session_file import (
    FoundFile,
    SessionFile,
    asked,
    found_in,
    listed,
    place_in,
)
from holdfast.runtime.guest_rpc import wire_fields

if TYPE_CHECKING:
    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel

T = TypeVar("T")

PART = 4 << 20
"""Bytes of a file in one request."""


class FileRequests:
    """The files of the session at the other end of a channel, as one user sees them.

    New files belong to that user, or to an `owner`.
    """

    def __init__(self, channel: SessionChannel, user: str | None = None, owner: str | None = None) -> None:
        self._channel = channel
        self._client = channel.client()
        named = {"user": user, "owner": owner}
        self._user: dict[str, Any] = {key: name for key, name in named.items() if name is not None}

    def look(self, path: str, *, follow: bool = True, attributes: bool = False) -> tuple[str, SessionFile]:
        """Return the absolute path, and its entry; a link is followed unless `follow` is false."""
        wanted = {"follow": follow, "attributes": attributes}
        told = wire_fields.body(self._ask("file_look", asked(path=path), **wanted))
        return place_in(told), SessionFile.of(told, attributes=attributes)

    def content(self, path: str, *, attributes: bool = False) -> list[SessionFile]:
        """Return the entries of a folder, by name."""
        return self._persistently(lambda: self._content(path, attributes))

    def _content(self, path: str, attributes: bool) -> list[SessionFile]:
        known: set[str] = set()
        wanted = {**self._user, "attributes": attributes}
        frames = self._client.call("file_list", payload=asked(path=path), **wanted)
        return [file for frame in frames for file in listed(frame, known, attributes=attributes)]

    def read(self, path: str, offset: int, length: int, *, follow: bool = True) -> tuple[bytes, int, str]:
        """Return a part of a file, and the file's size and version at that moment."""
        wanted = min(length, PART)
        frame = self._ask("file_read", asked(path=path), offset=offset, length=wanted, follow=follow)
        if len(frame.payload) > wanted:
            raise ProtocolError("cannot understand the session: it sends more of a file than requested")
        return frame.payload, wire_fields.integer(frame, "size"), wire_fields.text(frame, "version")

    def write(
        self,
        path: str,
        parts: Iterator[bytes],
        *,
        mode: int | None = None,
        mtime_ns: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> int:
        """Write a file in parts; it appears, or replaces the old one, only when complete. Return its
        bytes."""
        id_, offset = secrets.token_hex(16), 0
        self._ask("file_begin", asked(path=path), id=id_)
        try:
            for part in parts:
                for start in range(0, len(part), PART):
                    piece = part[start : start + PART]
                    self._ask("file_write", piece, id=id_, offset=offset)
                    offset += len(piece)
            kept = dict(attributes or {})
            self._ask("file_finish", id=id_, size=offset, mode=mode, mtime_ns=mtime_ns, attributes=kept)
        except BaseException:
            with suppress(HoldfastError):
                self._ask("file_abandon", id=id_)
            raise
        return offset

    def make_folder(self, path: str, *, mode: int = 0o755, parents: bool = False) -> None:
        """Make a folder unless it is there."""
        self._ask("file_folder", asked(path=path), mode=mode & 0o777, parents=parents)

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link, or replace one."""
        self._ask("file_link", asked(path=path, target=target), id=secrets.token_hex(16))

    def move(self, path: str, to: str) -> None:
        """Rename it on the same file system."""
        self._ask("file_move", asked(path=path, to=to), id=secrets.token_hex(16))

    def remove(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file, or a folder."""
        flags = {"recursive": recursive, "missing_ok": missing_ok}
        self._ask("file_remove", asked(path=path), id=secrets.token_hex(16), **flags)

    def change_mode(self, path: str, mode: int) -> None:
        """Change the permissions of the file at a path."""
        self._ask("file_mode", asked(path=path), mode=mode)

    def find(self, path: str, name: str, containing: str | None, most: int) -> list[FoundFile]:
        """Return the matches below a folder."""
        return self._persistently(lambda: self._find(path, name, containing, most))

    def _find(self, path: str, name: str, containing: str | None, most: int) -> list[FoundFile]:
        payload = asked(path=path, name=name, containing=containing)
        found: list[FoundFile] = []
        for frame in self._client.call("file_find", payload=payload, most=most, **self._user):
            found += found_in(frame)
            if len(found) > most:
                raise ProtocolError("cannot understand the session: it finds more than requested")
        return found

    def _ask(self, op: str, payload: bytes = b"", **args: Any) -> Frame:
        given = {**self._user, **args}
        return self._persistently(lambda: self._client.request(op, payload=payload, **given))

    def _persistently(self, attempt: Callable[[], T]) -> T:
        reconnection = self._channel.reconnection()
        reconnection.again = lambda: None  # what a rewind undid can be asked for again
        with self._channel.explained():
            return reconnection.run(attempt)
