"""All watches of the session, by the ids their readers chose, and their ends.

A watch lives as long as its reader is connected. A capture ends all connections: until a while after it, a
reader that comes back finds its watch.
"""

from __future__ import annotations

import asyncio
import os
import stat

from holdfast.runtime.guest.files.as_user import as_user
from holdfast.runtime.guest.files.folder_walk import MAX_FOLDERS
from holdfast.runtime.guest.files.folder_watch import FolderWatch
from holdfast.runtime.guest.files.inotify_queue import WatchLimit
from holdfast.runtime.guest.files.watched_folders import MAX_LISTED
from holdfast.runtime.guest.identity.account import UserAccount

MAX_WATCHES = 16
GRACE = 600.0
"""Seconds in which a reader that a capture disconnected may come back; a slow one notices late."""


class Watches:
    """The watches and who reads them."""

    def __init__(self) -> None:
        self._known: dict[str, FolderWatch] = {}
        self._starting: set[FolderWatch] = set()
        self._readers: dict[str, object] = {}
        self._cut: dict[str, object] = {}
        self._pausing = False
        self._resuming: asyncio.Task[None] | None = None

    def known(self, id_: str) -> FolderWatch | None:
        """Return the watch of that id, if there is one."""
        return self._known.get(id_)

    async def begin(
        self, id_: str, path: str, account: UserAccount, *, recursive: bool, last: int
    ) -> FolderWatch:
        """Watch a file or folder; a link is followed.

        Raises:
            WatchLimit: more would have to be watched than is allowed.
            OSError: it may not be read, or does not exist.
        """
        if len(self._known) + len(self._starting) >= MAX_WATCHES:
            raise WatchLimit(f"the session has {MAX_WATCHES} watches already")
        with as_user(account):
            place = os.path.realpath(path, strict=True)
            folder = stat.S_ISDIR(os.stat(place).st_mode)  # noqa: PTH116
        root, name = (place, None) if folder else os.path.split(place)
        watch = FolderWatch(
            root, name, account, recursive=recursive and folder, last=last, has_room=self._has_room
        )
        self._starting.add(watch)
        try:
            await watch.start()
        except BaseException:
            watch.close()
            raise
        finally:
            self._starting.discard(watch)
        self.remove(id_)
        self._known[id_] = watch
        return watch

    def attach(self, id_: str, reader: object) -> None:
        """Note who reads it; a reader before has been disconnected, but this may not be known yet."""
        self._readers[id_] = reader
        self._cut.pop(id_, None)

    def left(self, id_: str, reader: object) -> None:
        """Remove it if that is its reader; a while later if a capture has disconnected it."""
        if self._readers.get(id_) is not reader:
            return
        del self._readers[id_]
        if self._pausing:
            self._cut[id_] = reader
            asyncio.get_running_loop().call_later(GRACE, self._reap, id_, reader)
        else:
            self.remove(id_)

    def remove(self, id_: str) -> None:
        """End a watch, if there is one of that id."""
        watch = self._known.pop(id_, None)
        if watch is not None:
            watch.close()

    def pausing(self) -> None:
        """Keep the watches of all readers that are disconnected from now on."""
        self._pausing = True

    async def hold(self) -> None:
        """End all queues before a capture."""
        if self._resuming is not None:
            await asyncio.gather(self._resuming, return_exceptions=True)
        names = MAX_LISTED
        for watch in list(self._known.values()):
            names -= await watch.hold(names)

    def resume(self, *, copy: bool) -> None:
        """Watch again; in a copy, whose readers are elsewhere, end all watches instead."""
        self._pausing = False
        if copy:
            self.stop()
        elif self._known:
            self._resuming = asyncio.get_running_loop().create_task(self._resume())

    def stop(self) -> None:
        """End all watches."""
        for id_ in list(self._known):
            self.remove(id_)

    async def _resume(self) -> None:
        for watch in list(self._known.values()):
            await watch.resume()

    def _reap(self, id_: str, reader: object) -> None:
        if self._cut.get(id_) is reader:
            del self._cut[id_]
            self.remove(id_)

    def _has_room(self) -> bool:
        return sum(watch.folders for watch in (*self._known.values(), *self._starting)) < MAX_FOLDERS
