"""The folders of one watch in a queue of the kernel: adds them, lists them, and reads their events.

Owns the queue; what events mean is decided in `path_events.py`. It knows no reader: changes are passed to a
function.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import islice

from holdfast.runtime.guest.files import folder_walk, listing_diff, rename_pairs
from holdfast.runtime.guest.files.as_user import as_user
from holdfast.runtime.guest.files.folder_walk import Signature
from holdfast.runtime.guest.files.inotify_events import RawEvent
from holdfast.runtime.guest.files.inotify_queue import InotifyQueue, WatchLimit
from holdfast.runtime.guest.files.listing_diff import Listing
from holdfast.runtime.guest.files.path_events import (
    FolderAppeared,
    PathChange,
    PathEvents,
    QueueOverflowed,
    RootGone,
    Step,
    WatchesLeft,
)
from holdfast.runtime.guest.files.watch_tree import WatchTree
from holdfast.runtime.guest.identity.account import UserAccount

PER_TURN = 200
"""Names looked at before others get their turn: about a millisecond."""
MAX_LISTED = 50_000
"""Names in lists, all watches together: half a second."""
SECOND_HALF = 0.01
"""Seconds to wait for the second half of a rename; the kernel writes it microseconds after the first."""

Report = Callable[[PathChange], None]


class FolderGone(Exception):
    """The watched folder was removed, or has another name."""


class WatchedFolders:
    """A folder, all below it, or one name in it; with the rights of a user."""

    def __init__(
        self,
        root: str,
        only: str | None,
        account: UserAccount,
        *,
        recursive: bool,
        has_room: Callable[[], bool],
        report: Report,
    ) -> None:
        """Begin nothing yet; see `FolderWatch` for the arguments."""
        self.root, self.only = root, only
        self._account = account
        self._recursive = recursive
        self._has_room = has_room
        self._report = report
        self._queue: InotifyQueue | None = None
        self._state = PathEvents(WatchTree(0), recursive=recursive, only=only)
        self._rest: list[RawEvent] = []

    @property
    def count(self) -> int:
        """How many folders are watched."""
        return len(self._state.tree) if self._queue is not None else 0

    async def open(self, before: Listing | None = None) -> None:
        """Watch everything in a new queue; report what differs from a list, if there is one.

        Raises:
            WatchLimit: more would have to be watched than is allowed.
            OSError: the folder may not be read, or is gone.
        """
        self.close()
        queue = self._queue = InotifyQueue()
        with as_user(self._account):
            root = queue.add(self.root)
        self._state = PathEvents(WatchTree(root), recursive=self._recursive, only=self.only)
        now: dict[str, Signature] = {}
        if self._recursive or before is not None:
            async for path, signature in self._walk("", lambda path: not path or self._enter_below(path)):
                if before is not None and len(now) <= 2 * MAX_LISTED:
                    now[path] = signature
        until = queue.read_bytes + queue.waiting
        if before is None:
            self._state.mute(until)
        elif len(now) > 2 * MAX_LISTED:
            self._report(PathChange("lost", "", why="capture"))
            self._state.mute(until)
        else:
            found = list(listing_diff.changes(before, now))
            for change in found:
                self._report(change)
            self._state.settle(found, until)

    def close(self) -> None:
        """End the queue, if there is one."""
        self._rest = []
        if self._queue is not None:
            with suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._queue.descriptor)
            self._queue.close()
            self._queue = None

    async def wait(self) -> None:
        """Wait until there is something to read."""
        if self._queue is not None:
            await _readable(self._queue.descriptor, SECOND_HALF if self._rest else None)

    async def read(self, *, final: bool = False) -> None:
        """Process what one read of the queue has; `final`: wait for no second half of a rename.

        Raises:
            FolderGone: there will be no more events.
            WatchLimit, OSError: as for `open`.
        """
        queue = self._queue
        if queue is None:
            return
        found = queue.read()
        events, self._rest = rename_pairs.joined([*self._rest, *found], final=final or not found)
        for event in events:
            for step in self._state.feed(event):
                await self._carry_out(step, queue)
                if self._queue is not queue:  # what was read of the one before has no meaning any more
                    return

    async def drain(self) -> None:
        """Process what is in the queue by now; raises as `read` does."""
        queue = self._queue
        until = 0 if queue is None else queue.read_bytes + queue.waiting
        while queue is not None and self._queue is queue and queue.read_bytes < until:
            await self.read()
        if self._rest:
            await asyncio.sleep(SECOND_HALF)
            await self.read(final=True)

    async def list(self, most: int) -> Listing | None:
        """Return what there is; None if it is more than that many names."""
        listing: Listing = {}
        async for path, signature in self._walk("", lambda _: True):
            listing[path] = signature
            if len(listing) > most:
                return None
        return listing

    def look_again(self, listing: Listing, path: str) -> None:
        """Bring one path of a list up to date."""
        try:
            with as_user(self._account):
                listing[path] = Signature.of(os.lstat(f"{self.root}/{path}"))
        except OSError:
            listing.pop(path, None)

    async def _carry_out(self, step: Step, queue: InotifyQueue) -> None:
        match step:
            case PathChange():
                self._report(step)
            case FolderAppeared():
                await self._appeared(step, queue)
            case WatchesLeft():
                for watch in step.watches:
                    queue.remove(watch)
            case QueueOverflowed():
                self._report(PathChange("lost", "", why="overflow"))
                await self.open()
            case RootGone():
                raise FolderGone

    async def _appeared(self, step: FolderAppeared, queue: InotifyQueue) -> None:
        """Watch a folder that was made or moved here, and report what is in it already."""
        expected = self._state.tree.child(step.parent, step.name)
        with as_user(self._account):
            if not self._enter(step.path, step.parent, step.name):
                return
        if expected is not None:
            # When it was listed, the path had another folder: what was reported is not in this one.
            self._report(PathChange("removed", step.path, folder=True))
            self._report(PathChange("created", step.path, folder=True))
        found: list[PathChange] = []
        async for path, signature in self._walk(step.path, self._enter_below):
            change = PathChange("created", path, signature.folder)
            self._report(change)
            if len(found) < MAX_LISTED:
                found.append(change)
        self._state.settle(found, queue.read_bytes + queue.waiting)

    def _enter(self, path: str, parent: int, name: str) -> bool:
        """Watch a folder, with the rights of this thread; return whether it is a new one at that place."""
        tree = self._state.tree
        assert self._queue is not None
        try:
            watch = self._queue.add(f"{self.root}/{path}")
        except OSError:
            return False
        if tree.child(parent, name) == watch:
            return False
        if watch not in tree and not self._has_room():
            raise WatchLimit("the session has too many folders that are watched")
        try:
            tree.place(watch, parent, name)
        except ValueError:
            return False
        return True

    def _enter_below(self, path: str) -> bool:
        """Watch a folder in one that is watched; return whether it is watched."""
        tree = self._state.tree
        *above, name = path.split("/")
        parent: int | None = tree.root
        for each in above:
            parent = None if parent is None else tree.child(parent, each)
        if parent is None:
            return False
        return self._enter(path, parent, name) or tree.child(parent, name) is not None

    def _walk(self, begin: str, enter: folder_walk.Enter) -> AsyncIterator[tuple[str, Signature]]:
        steps = folder_walk.steps(self.root, begin, recursive=self._recursive, only=self.only, enter=enter)
        return _in_turns(steps, self._account)


async def _in_turns(
    steps: Iterator[tuple[str, Signature]], account: UserAccount
) -> AsyncIterator[tuple[str, Signature]]:
    """Yield what a walk yields, with the rights of a user, and let others run in between."""
    while True:
        with as_user(account):
            found = list(islice(steps, PER_TURN))
        for each in found:
            yield each
        if len(found) < PER_TURN:
            return
        await asyncio.sleep(0)


async def _readable(descriptor: int, patience: float | None) -> None:
    """Wait until there is something to read, or `patience` seconds."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def arrived() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, arrived)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await ready
    finally:
        loop.remove_reader(descriptor)
