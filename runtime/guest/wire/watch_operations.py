"""The operation that watches files: the present content first, then changes, while its reader stays.

A reader that comes back, after a capture or because the kernel dropped events, gets the whole content once
more and finds the difference itself: nothing of a watch outlives its connection.
"""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING, Any

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.named_path import NamedPath, json_bytes, refusing

if TYPE_CHECKING:
    from holdfast.runtime.guest.files.watched_tree import Look, WatchedTree

MAX_WATCHES = 16
SOON, LATEST = 0.01, 1.0
SHARE = 5
"""How many times longer than the last look the next one waits: at most a sixth of a processor, however much
changes. In seconds, within the bounds above."""
PER_FRAME = 1000


async def watch(guest: Guest, call: ClientCall) -> None:
    """Send the content of a folder, and of those below it with `recursive`; then each change."""
    place = NamedPath(guest, call)
    if len(guest.watches) >= MAX_WATCHES:
        raise RequestRefused("file", f"cannot watch {place.shown}: there are {MAX_WATCHES} watches already")
    from holdfast.runtime.guest.files.watched_tree import WatchedTree

    with place.rights("watch"):
        root = os.path.realpath(place.path, strict=True)
        folder = stat.S_ISDIR(os.stat(root).st_mode)  # noqa: PTH116
    above, name = (root, None) if folder else os.path.split(root)
    recursive = folder and call.frame.head.get("recursive") is True
    with refusing(f"watch {place.shown}"):
        tree = WatchedTree(above, place.account, recursive=recursive, only=name)
    watching = FileWatching(call, tree, above, name)
    guest.watches[watching] = watching.close
    try:
        with refusing(f"watch {place.shown}"):
            await watching.run()
    finally:
        del guest.watches[watching]
        watching.close()


class FileWatching:
    """One reader, and its watched folders."""

    def __init__(self, call: ClientCall, tree: WatchedTree, root: str, name: str | None) -> None:
        self._call = call
        self._tree = tree
        self._root = root
        self._name = name
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Send the content, then changes, until the root is removed."""
        await self._all()
        pause = SOON
        while not self._tree.gone:
            await self._readable()
            await asyncio.sleep(pause)
            begun = self._loop.time()
            self._tree.read()
            if self._tree.lost:
                self._tree.restart()
                await self._all()
            else:
                await self._changes()
            pause = min(LATEST, max(SOON, SHARE * (self._loop.time() - begun)))
        await self._call.finish("gone")

    def close(self) -> None:
        """End all watches."""
        if self._tree.queue.descriptor >= 0:
            self._loop.remove_reader(self._tree.queue.descriptor)
        self._tree.close()

    async def _all(self) -> None:
        await self._call.send("content", json_bytes({"path": self._root, "name": self._name}))
        await self._walk("")
        await self._call.send("watched")

    async def _walk(self, start: str) -> None:
        empty = True
        for folder, facts, more in self._tree.walk(start):
            empty = empty and folder != start
            await self._call.send("folder", json_bytes({"at": folder, "files": facts, "more": more}))
            await asyncio.sleep(0)
        if empty:  # it is not there any more, or may not be read
            await self._call.send("folder", json_bytes({"at": start, "files": [], "more": False}))

    async def _changes(self) -> None:
        found: list[dict[str, Any]] = []
        for look in self._tree.looks():
            if look is None:
                await asyncio.sleep(0)
                continue
            found.append(_told(look))
            if self._tree.is_new(look):
                await self._send(found)
                found = []
                await self._walk(look.path)
            elif len(found) >= PER_FRAME:
                await self._send(found)
                found = []
        await self._send(found)

    async def _send(self, found: list[dict[str, Any]]) -> None:
        if found:
            await self._call.send("changes", json_bytes(found))

    async def _readable(self) -> None:
        """Wait until the kernel has events."""
        if self._tree.pending:
            return
        came, descriptor = asyncio.Event(), self._tree.queue.descriptor
        self._loop.add_reader(descriptor, came.set)
        try:
            await came.wait()
        finally:
            if self._tree.queue.descriptor == descriptor:
                self._loop.remove_reader(descriptor)


def _told(look: Look) -> dict[str, Any]:
    told = {"at": look.folder, "name": look.name, "facts": look.facts, "written": look.written}
    return told | ({"moved": True} if look.moved else {})


OPERATIONS: Operations = {"file_watch": watch}
