"""The source of a session's recording, and places in it as people write them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.errors import EngineError, InvalidArgument, SessionDead, SessionError, SessionPaused
from holdfast.runtime.history.recording.live_recording import LiveRecording
from holdfast.runtime.history.recording.recording import RecordingPoint, RecordingSource
from holdfast.runtime.store import parents
from holdfast.runtime.store.past_lives import journal_of

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


def source(line: SessionChannel, shell: str) -> RecordingSource:
    """Return the recording of a session: from its supervisor, or from the container that it left.

    Raises:
        SessionError: it is in neither.
    """
    try:
        with line.explained():
            live = LiveRecording(line.client, line.reconnection(), shell)
            live.kept()
            return live
    except SessionPaused:
        raise  # it is there, but only the paused supervisor can read it
    except SessionError as error:
        row = line.row
        if not isinstance(error, SessionDead) or row.container_id is None:
            raise _nowhere(row, error) from error
        from holdfast.runtime.history.recording.kept_recording import KeptRecording

        try:
            return KeptRecording(line.context.engine, row.container_id, shell)
        except EngineError:
            raise _nowhere(row, error) from error


def place(context: Context, row: SessionRow, text: str, shell: str) -> RecordingPoint:
    """Parse a place: an offset, a time (ISO 8601, or `10m` ago), or a snapshot the session comes from.

    Raises:
        InvalidArgument: it is not a place, or a snapshot of another history.
        SnapshotNotFound: there is no such snapshot.
    """
    if text.isdecimal() and len(text) < 16:
        return RecordingPoint(offset=int(text))
    if (ago := parse_duration(text, unit_required=True)) is not None:
        return RecordingPoint(at=time.time() - ago)
    try:
        return RecordingPoint(at=datetime.fromisoformat(text).timestamp())
    except ValueError:
        pass
    return _snapshot(context, row, text, shell)


def _snapshot(context: Context, row: SessionRow, text: str, shell: str) -> RecordingPoint:
    wanted = context.store.snapshot(text)
    by_id = {snapshot.id: snapshot for snapshot in context.store.snapshots()}
    history: set[str] = set()
    at = parents.of_session(row, by_id)
    while at is not None and at not in history:
        history.add(at)
        at = by_id[at].parent_snapshot_id if at in by_id else None
    if wanted.id not in history and journal_of(wanted) != row.id:
        raise InvalidArgument(
            f"cannot replay from snapshot {plain(wanted.label or wanted.id, 63)}: "
            f"it is not in the history of session {row.name}",
            hint="`holdfast snapshots` shows the tree",
        )
    offset = wanted.details.moment.offsets.get(shell)
    if not isinstance(offset, int):
        raise InvalidArgument(
            f"cannot replay from snapshot {plain(wanted.label or wanted.id, 63)}: "
            "it does not record where the output ended then"
        )
    return RecordingPoint(offset=offset)


def _nowhere(row: SessionRow, error: SessionError) -> SessionError:
    return type(error)(
        f"cannot replay session {row.name}: it does not run, and its recording is gone",
        hint="a session restored from one of its snapshots has the recording up to that point",
    )
