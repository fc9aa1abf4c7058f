"""Calls that follow a session: its events, and changes of its files.

The result of a watch says whether what is watched is gone (`ended`), or the waiting was ended (`left`).
"""

from __future__ import annotations

from typing import Any

from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import watched
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.files.watch_budget import SERVED
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.calls.served_call import Emit, ServedCall
from holdfast.runtime.serve.models.command_models import EventsQuery, WatchQuery

EVENT_BYTES = 1000


def events_call(asked: EventsQuery) -> ServedCall:
    """Follow the events of a session."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        for event in found.events(asked.after, follow=asked.follow, kinds=asked.kind, patience=patience):
            if emit is not None:
                emit({"event": event.kind, **event.as_dict()}, EVENT_BYTES)
        return {}

    return call


def watch_call(asked: WatchQuery) -> ServedCall:
    """Follow the changes of a folder or a file."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        files = found.files if asked.user is None else found.files.as_user(asked.user)
        patience.begin()
        how: dict[str, Any] = {"recursive": asked.recursive, "timeout": patience.left(), "patience": patience}
        with SERVED.begin(found.id) as share, watched(files, asked.path, share, **how) as changes:
            if emit is not None:
                emit({"event": "watching", "path": changes.path}, EVENT_BYTES)
            for change in changes:
                if emit is not None:
                    emit({"event": "change", **_change(change)}, EVENT_BYTES)
            return {"ended": changes.ended, "left": patience.ended}

    return call


def _change(change: WatchedChange) -> dict[str, Any]:
    told = change.as_dict()
    if change.file is not None:
        told["file"]["version"] = change.file.version
    return told
