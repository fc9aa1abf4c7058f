"""One watch of a reader: from the kernel's events to numbered changes, also across captures.

While a session is captured there is no queue of events: `hold` ends it and keeps a list, `resume` begins
another one and reports what differs. A queue that was captured would take longer in the freeze the more is
watched, be restored in copies where no reader is, and make captures fail that could not restore a watch.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from holdfast.runtime.guest.files import listing_diff
from holdfast.runtime.guest.files.event_backlog import EventBacklog
from holdfast.runtime.guest.files.inotify_queue import WatchLimit
from holdfast.runtime.guest.files.listing_diff import Listing
from holdfast.runtime.guest.files.path_events import PathChange
from holdfast.runtime.guest.files.watched_folders import FolderGone, WatchedFolders
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.records.waiters import Waiters

ROUNDS = 4
"""Attempts to make a list while nothing changes."""
TICK = 0.012
"""Seconds within which two changes of a file may have the same time: the kernel's clock ticks every 10 ms at
the slowest."""

ENDS = (FolderGone, WatchLimit, OSError)
"""What ends a watch."""

logger = logging.getLogger(__name__)


class FolderWatch:
    """A watch of a folder, of all below it, or of one name in it."""

    def __init__(
        self,
        root: str,
        only: str | None,
        account: UserAccount,
        *,
        recursive: bool,
        last: int,
        has_room: Callable[[], bool],
    ) -> None:
        """Begin nothing yet.

        Args:
            root: the folder, by a path without links.
            only: the one name in it that matters, or None.
            account: whose rights apply.
            recursive: whether folders in folders are watched.
            last: the number after which changes are numbered.
            has_room: returns whether one more folder may be watched.
        """
        self.backlog = EventBacklog(last)
        self.changes = Waiters()
        self.over: str | None = None
        """Why there will be no more changes; empty if the folder is gone."""
        self._folders = WatchedFolders(
            root, only, account, recursive=recursive, has_room=has_room, report=self._report
        )
        self._before: Listing | None = None
        self._touched: list[PathChange] | None = None
        self._held = False
        self._busy = asyncio.Lock()
        self._pump: asyncio.Task[None] | None = None

    @property
    def root(self) -> str:
        """The folder at which paths begin."""
        return self._folders.root

    @property
    def watched(self) -> str:
        """The path of what is watched."""
        only = self._folders.only
        return self.root if only is None else f"{self.root.rstrip('/')}/{only}"

    @property
    def folders(self) -> int:
        """How many folders are watched."""
        return self._folders.count

    async def start(self) -> None:
        """Watch from now on.

        Raises:
            WatchLimit: more would have to be watched than is allowed.
            OSError: the folder may not be read, or is gone.
        """
        await self._folders.open()
        self._pump = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """End it, for good."""
        if self._pump is not None:
            self._pump.cancel()
        self._folders.close()

    def heard(self, number: int) -> None:
        """Forget what the reader has received."""
        self.backlog.received(number)
        self.changes.wake()

    async def hold(self, names: int) -> int:
        """End the queue before a capture; return how many names were listed, of at most `names`.

        Afterwards the list has exactly what was reported, whatever changes meanwhile.
        """
        async with self._busy:
            if self._pump is not None:
                self._pump.cancel()
            self._held, self._before = True, None
            try:
                if self.over is None:
                    self._before = await self._list_settled(names)
            except ENDS as error:
                self._end_by(error)
            self._touched = None
            self._folders.close()
        return len(self._before or ())

    async def resume(self) -> None:
        """Begin another queue after a capture; report what changed meanwhile, or that this is not known."""
        if not self._held:
            return
        async with self._busy:
            before, self._before, self._held = self._before, None, False
            if self.over is None and before is None:
                self.backlog.lose("capture")
            try:
                if self.over is None:
                    await self._folders.open(before)
            except ENDS as error:
                self._end_by(error)
        self._pump = asyncio.get_running_loop().create_task(self._run())
        self.changes.wake()

    async def _run(self) -> None:
        while self.over is None:
            while self.backlog.high:
                await self.changes.wait()
            await self._folders.wait()
            async with self._busy:
                try:
                    await self._folders.read()
                except ENDS as error:
                    self._end_by(error)
            self.changes.wake()

    def _report(self, change: PathChange) -> None:
        if change.kind == "lost":
            self.backlog.lose(change.why or "")
        else:
            self.backlog.add(change)
        if self._touched is not None:
            self._touched.append(change)

    def _end_by(self, error: Exception) -> None:
        """End it because its folder is gone, a limit is reached, or something failed."""
        self._folders.close()
        if isinstance(error, FolderGone):
            self.over = ""
        elif isinstance(error, FileNotFoundError | NotADirectoryError):
            only = self._folders.only
            self.backlog.add(PathChange("removed", only or "", folder=only is None))
            self.over = ""
        elif isinstance(error, WatchLimit):
            self.over = str(error)
        else:
            logger.error("cannot watch %r any longer", self.root, exc_info=error)
            self.over = f"{type(error).__name__}: {error}"

    async def _list_settled(self, names: int) -> Listing | None:
        """Return a list of exactly what was reported; None if it is too long or changes too fast.

        Whatever is reported while the list is made is looked at again, until nothing is: then the list is as
        old as the last event that was read. A file whose time is that of this tick might change once more
        without a trace, so the next tick is waited for.
        """
        listing: Listing | None = None
        for _ in range(ROUNDS):
            if listing is None and (listing := await self._folders.list(names)) is None:
                return None
            touched = await self._drained()
            if any(each.kind == "lost" for each in touched):
                return None
            newest = max((found.changed for found in listing.values() if found is not None), default=0)
            if not touched and not 0 <= time.time() - newest / 1e9 < TICK:
                return listing
            await asyncio.sleep(TICK)
            if any(each.folder for each in touched):
                listing = None
                continue
            for path in {path for each in touched for path in (each.path, each.to) if path}:
                self._folders.look_again(listing, path)
        # Something changes all the time: names are as events say, and what is not sure counts as modified.
        if listing is None and (listing := await self._folders.list(names)) is None:
            return None
        return listing if listing_diff.apply(listing, await self._drained()) else None

    async def _drained(self) -> list[PathChange]:
        touched = self._touched = []
        await self._folders.drain()
        self._touched = None
        return touched
