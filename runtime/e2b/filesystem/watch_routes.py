"""The RPCs that watch folders: one stream of events, or a watcher that is asked for them."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from holdfast.errors import InvalidArgument, ProtocolError, SessionFileNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, located, watched
from holdfast.runtime.e2b import connect_frames, rpc_streams
from holdfast.runtime.e2b.e2b_errors import SandboxUnavailable
from holdfast.runtime.e2b.filesystem.account_names import AccountNames
from holdfast.runtime.e2b.filesystem.entry_info import shown
from holdfast.runtime.e2b.filesystem.filesystem_models import WatcherRequest, WatchRequest
from holdfast.runtime.e2b.filesystem.polled_watchers import MOST_BYTES, PolledWatcher, PolledWatchers
from holdfast.runtime.e2b.filesystem.watch_events import KEEPALIVE, START, events, gone
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller, sandbox_caller
from holdfast.runtime.files.watch_budget import SERVED, TooManyWatches, WatchShare
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.calls.followed_calls import Emit, ServedCall

router = APIRouter(prefix="/filesystem.Filesystem")
From = Annotated[SandboxCaller, Depends(sandbox_caller)]
EVENT_BYTES = 1000


@router.post("/WatchDir")
async def watch(who: From) -> Response:
    """Stream the changes of a folder, for as long as the client wants."""
    asked = WatchRequest.read(connect_frames.whole(await who.request.body()))
    seconds = rpc_streams.seconds_given(who)
    return await rpc_streams.streamed(who, _watching(who, asked, seconds), seconds, KEEPALIVE)


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
    """Return what has changed since the last time."""
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

    It ends without an error when the folder is gone, or its client.
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
            return {} if changes.ended or patience.ended else rpc_streams.DEADLINE

    return call


def _folder(place: SessionFiles, path: str) -> str:
    absolute, found = located(place, path or ".")
    if found.kind != "folder":
        raise InvalidArgument(f"cannot watch {shown(path)}: it is a {found.kind}, not a directory")
    return absolute
