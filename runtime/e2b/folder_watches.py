"""Watches of folders: one stream of events, or a watcher that is polled.

A file that is made with content is CREATE, CHMOD and WRITE: E2B's server gives each to its user. A moved
file is RENAME for its old name, if the watch saw that, and CREATE for the new one. The files in which
uploads arrive are not reported. A watcher does not have a thread or a queue of its own: unrequested events
wait in the session. It reports everything again when that was too much, and the difference is found here.
One that is not asked for long ends.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from holdfast.errors import InvalidArgument, ProtocolError, SessionFileNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, located, watched
from holdfast.runtime.e2b import connect_wire
from holdfast.runtime.e2b.connect_wire import SandboxUnavailable, WatcherNotFound
from holdfast.runtime.e2b.filesystem_service import (
    AccountNames,
    OwnerNames,
    WatcherRequest,
    WatchRequest,
    clean,
    entry,
    shown,
)
from holdfast.runtime.e2b.sandbox_access import ACTOR
from holdfast.runtime.e2b.sandbox_caller import From, SandboxCaller
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.files.watch_budget import SERVED, TooManyWatches, WatchBudget, WatchShare
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.calls.followed_calls import Emit, ServedCall
from holdfast.runtime.serve.routes.api_router import wire_router

CREATE, WRITE, REMOVE, RENAME, CHMOD = (
    f"EVENT_TYPE_{name}" for name in ("CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD")
)
START: dict[str, Any] = {"start": {}}
KEEPALIVE: dict[str, Any] = {"keepalive": {}}


def gone() -> dict[str, Any]:
    """Return the event of a watched folder that was removed."""
    return {"name": ".", "type": REMOVE}


def events(change: WatchedChange, root: str, names: OwnerNames | None = None) -> list[dict[str, Any]]:
    """Return the events of a change below `root`; with `names` they describe the present file."""
    below = _below(change.path, root)
    told: dict[str, Any] = {"name": shown(below)}
    if names is not None and change.file is not None:
        told["entry"] = entry(clean(change.path), change.file, names)
    return [{**told, "type": kind} for kind in _kinds(change)]


def _kinds(change: WatchedChange) -> list[str]:
    file = change.file
    if change.kind == "removed":
        return [RENAME if change.moved else REMOVE]
    if change.kind == "created":
        filled = file is not None and file.kind == "file" and file.size > 0
        return [CREATE, CHMOD, WRITE] if filled else [CREATE]
    # The kernel has one event for rights, owner and times.
    chmod = change.attributes or not change.content
    return [WRITE] * change.content + [CHMOD] * chmod


def _below(path: str, root: str) -> str:
    if path == root:
        return "."
    return path.removeprefix(root.rstrip("/") + "/")


MOST_BYTES = 32 << 20
"""Bytes kept about the files of one watch: some 55 000 files. The session decides their number."""
MOST_EVENTS = 10_000
"""Events of one answer; the next has the others."""
IDLE_SECONDS = 600.0
FIRST_SECONDS, NEXT_SECONDS = 0.3, 0.02
"""How long an answer waits for a first event, and then for another one: a session looks some milliseconds
after a change, and clients expect to hear of what they did just before."""


class PolledWatcher:
    """One watcher."""

    def __init__(
        self, sandbox: str, watch: FileWatch, patience: Patience, names: AccountNames | None
    ) -> None:
        self.sandbox = sandbox
        self.patience = patience
        self._watch, self._names = watch, names
        self._one_at_a_time = threading.Lock()
        self._left: list[dict[str, Any]] = []

    def news(self) -> list[dict[str, Any]]:
        """Return the events since the last time; in a thread.

        Raises:
            HoldfastError: the sandbox does not run.
        """
        with self._one_at_a_time:
            found = self._left
            try:
                self._take_in(found)
            except SessionFileNotFound:  # it was removed while nothing was connected, or with very much in it
                found.append(gone())
                self._watch.close()
            found, self._left = found[:MOST_EVENTS], found[MOST_EVENTS:]
            if self.patience.ended:
                self._watch.close()
            return found

    def _take_in(self, found: list[dict[str, Any]]) -> None:
        seconds = FIRST_SECONDS if not found else 0.0
        while len(found) < MOST_EVENTS and (change := self._watch.next(seconds)) is not None:
            found += events(change, self._watch.path, self._names)
            seconds = NEXT_SECONDS

    def close(self) -> None:
        """End it, from any thread, without waiting for a caller that polls its events."""
        self.patience.end()
        if self._one_at_a_time.acquire(blocking=False):
            self._watch.close()
            self._one_at_a_time.release()


class PolledWatchers:
    """All watchers of a server; used in its loop."""

    def __init__(self, callers: Callers, budget: WatchBudget = SERVED) -> None:
        self._callers, self._budget = callers, budget
        self._open: dict[str, PolledWatcher] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    async def begin(self, sandbox: str, begun: Callable[[Patience, WatchShare], PolledWatcher]) -> str:
        """Begin to watch, in a thread; return the id of the watcher, which cannot be guessed.

        Raises:
            TooManyWatches: there are too many.
            HoldfastError: it cannot begin.
        """
        if self._budget.is_full:
            await self._forget_gone()
        share = self._budget.begin(sandbox, by_sandbox=True)
        patience, id_ = self._callers.patience(), secrets.token_hex(16)
        try:
            found = await self._callers.brief.run(lambda: begun(patience, share), f"sandbox {sandbox}")
        except BaseException:
            share.close()
            patience.end()
            self._callers.done(patience)
            raise
        self._open[id_] = found
        self._wait(id_)
        return id_

    def find(self, sandbox: str, id_: str) -> PolledWatcher:
        """Return a watcher of a sandbox, and prolong its life.

        Raises:
            WatcherNotFound: it does not have a watcher with this id.
        """
        found = self._open.get(id_)
        if found is None or found.sandbox != sandbox:
            raise WatcherNotFound(
                f"cannot find the watcher: it was removed, or not asked for {IDLE_SECONDS / 60:.0f} minutes",
                hint="watch the directory again",
            )
        self._ends.pop(id_).cancel()
        self._wait(id_)
        return found

    def end(self, id_: str) -> None:
        """End a watcher, if it is there."""
        if (found := self._open.pop(id_, None)) is not None:
            self._ends.pop(id_).cancel()
            self._callers.done(found.patience)
            found.close()

    def _wait(self, id_: str) -> None:
        self._ends[id_] = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.end, id_)

    async def _forget_gone(self) -> None:
        """End the watchers of sandboxes that no longer exist."""
        there = await self._callers.brief.run(
            lambda: {row.id for row in self._callers.controller(ACTOR).store.sessions()}
        )
        for id_ in [id_ for id_, each in self._open.items() if each.sandbox not in there]:
            self.end(id_)


router = wire_router("e2b.watches", prefix="/filesystem.Filesystem")
EVENT_BYTES = 1000


@router.post("/WatchDir")
async def watch(who: From) -> Response:
    """Stream the changes of a folder, for as long as the client wants."""
    asked = WatchRequest.read(await connect_wire.only_message(who.request))
    seconds = connect_wire.seconds_given(who)
    return await connect_wire.streamed(who, who.sandbox, _watching(who, asked, seconds), seconds, KEEPALIVE)


@router.post("/CreateWatcher")
async def create_watcher(who: From, body: WatchRequest) -> dict[str, Any]:
    """Begin to watch a folder."""

    def begun(patience: Patience, share: WatchShare) -> PolledWatcher:
        place = who.files(who.session(who.sandbox), who.user)
        path = _folder(place, body.path)
        found = watched(place, path, share, recursive=body.recursive, patience=patience, most=MOST_BYTES)
        return PolledWatcher(
            who.sandbox, found, patience, AccountNames(place) if body.include_entry else None
        )

    return {"watcherId": await _watchers(who).begin(who.sandbox, begun)}


@router.post("/GetWatcherEvents")
async def watcher_events(who: From, body: WatcherRequest) -> dict[str, Any]:
    """Return the changes since the last time."""
    watcher = _watchers(who).find(who.sandbox, body.watcher_id)

    def work() -> list[dict[str, Any]]:
        who.session(who.sandbox)  # which may be paused, and resumed for this
        return watcher.news()

    try:
        return {"events": await who.waits(work)}
    except (ProtocolError, TooManyWatches):  # it cannot continue, and must not hold what it has
        _watchers(who).end(body.watcher_id)
        raise


@router.post("/RemoveWatcher")
async def remove_watcher(who: From, body: WatcherRequest) -> dict[str, Any]:
    """End a watcher."""
    _watchers(who).find(who.sandbox, body.watcher_id)
    _watchers(who).end(body.watcher_id)
    return {}


def _watchers(who: SandboxCaller) -> PolledWatchers:
    found: PolledWatchers = who.request.app.state.watchers
    return found


def _watching(who: SandboxCaller, asked: WatchRequest, seconds: float | None) -> ServedCall:
    """Return a call that follows the changes of a folder.

    It ends without an error when the folder has been removed, or its client has left.
    """
    until = None if seconds is None else time.monotonic() + seconds

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        assert emit is not None
        place = who.files(found, who.user)
        names = AccountNames(place) if asked.include_entry else None
        path = _folder(place, asked.path)
        left = None if until is None else max(0.001, until - time.monotonic())
        how: dict[str, Any] = {"recursive": asked.recursive, "timeout": left, "patience": patience}
        with (
            SERVED.begin(found.id, by_sandbox=True) as share,
            watched(place, path, share, most=MOST_BYTES, **how) as changes,
        ):
            emit(START, EVENT_BYTES)
            try:
                for change in changes:
                    for event in events(change, changes.path, names):
                        emit({"filesystem": event}, EVENT_BYTES)
            except SessionFileNotFound:  # it was removed while nothing was connected, or with very much in it
                emit({"filesystem": gone()}, EVENT_BYTES)
                return {}
            if who.all.stopping:
                raise SandboxUnavailable("cannot watch any longer: the server stops", hint="watch again soon")
            return {} if changes.ended or patience.ended else connect_wire.DEADLINE

    return call


def _folder(place: SessionFiles, path: str) -> str:
    absolute, found = located(place, path or ".")
    if found.kind != "folder":
        raise InvalidArgument(f"cannot watch {shown(path)}: it is a {found.kind}, not a directory")
    return absolute
