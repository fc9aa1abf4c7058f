"""The source of a session's recording: its supervisor, or the container that it left; and places in it as
people write them.

A running session's is read in ranges across lost connections. The files in a container were written by its
session: only regular files are taken from it, within limits.
"""

from __future__ import annotations

import io
import re
import shutil
import tarfile
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from holdfast.base.bounded_tar import BoundedTar
from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.engine.engine import Engine
from holdfast.errors import (
    EngineError,
    InvalidArgument,
    ProtocolError,
    SessionDead,
    SessionError,
    SessionPaused,
)
from holdfast.runtime.guest.layout import Layout
from holdfast.runtime.guest.records.streamlog import SEGMENT_SIZE
from holdfast.runtime.guest.shells.marks import MAX_MARK, MarkFilter
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.history.recording.cast import CastGap, Chunk
from holdfast.runtime.history.recording.recording import KeptRange, RecordingPoint, RecordingSource
from holdfast.runtime.store.timelines import journal_of, predecessor

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


# Bytes read over one connection before its pieces are used: a slow consumer holds none.
RANGE = 1 << 20
MOST_PIECES = 10_000
# The supervisor keeps 16 MiB.
MOST_INDEX = 64 << 20
_READ = 256 << 10
_WORD = re.compile(rb"\x1b\]133;[A-Z](?:;\d{1,3})?;hf=([0-9a-f]{16});n=\d")
_OUTPUT = re.compile(r"\d{16}")
_INDEX = re.compile(r"\d{8}")
# What a supervisor keeps of both, and some room.
MOST = 320 << 20
HEADERS = 1 << 20
"""Bytes of an archive in addition to the contents of its files."""


def source(channel: SessionChannel, shell: str) -> RecordingSource:
    """Return the recording of a session: from its supervisor, or from the container that it left.

    Raises:
        SessionError: it is in neither.
    """
    try:
        with channel.explained():
            live = LiveRecording(channel.client, channel.reconnection(), shell)
            live.kept()
            return live
    except SessionPaused:
        raise  # it is there, but only the paused supervisor can read it
    except SessionError as error:
        row = channel.row
        if not isinstance(error, SessionDead) or row.container_id is None:
            raise _nowhere(row, error) from error
        try:
            return KeptRecording(channel.context.engine, row.container_id, shell)
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
    at = predecessor(row, by_id)
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
        f"cannot replay session {row.name}: it does not run, and its recording was removed",
        hint="a session restored from one of its snapshots has the recording up to that point",
    )


class LiveRecording:
    """A `recording.Source`."""

    def __init__(self, client: Callable[[], GuestClient], reconnection: Reconnection, shell: str) -> None:
        self._client = client
        self._reconnection = reconnection
        self._shell = shell

    def kept(self) -> KeptRange:
        """Return the range of output that is kept."""
        look = self._reconnection.run(lambda: self._client().request("look", shell=self._shell))
        return KeptRange(wire_fields.integer(look, "start"), wire_fields.integer(look, "offset"))

    def segments(self, start: int, end: int) -> list[bytes]:
        """Yield the index of a part of the output."""
        return self._reconnection.run(lambda: self._segments(start, end))

    def output(self, start: int, end: int) -> Iterator[Chunk | CastGap]:
        """Yield a part of the output."""
        at = start
        while at < end:
            items = self._reconnection.run(lambda at=at: self._range(at, end))  # type: ignore[misc]
            if not items:
                return
            yield from items
            last = items[-1]
            at = last.next if isinstance(last, Chunk) else last.offset + last.size

    def _segments(self, start: int, end: int) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        with self._client().open("recording", shell=self._shell, start=start, end=end) as connection:
            for frame in connection.events(bounded=True):
                if wire_fields.event(frame) == "segment":
                    size += len(frame.payload)
                    if size > MOST_INDEX:
                        break
                    found.append(frame.payload)
        return found

    def _range(self, start: int, end: int) -> list[Chunk | CastGap]:
        found: list[Chunk | CastGap] = []
        at, size = start, 0
        args: dict[str, Any] = {"shell": self._shell, "offset": start, "end": end}
        with self._client().open("read", follow=False, **args) as connection:
            for frame in connection.events(bounded=True):
                size += len(frame.payload)
                match wire_fields.event(frame):
                    case "output":
                        offset, following = (
                            wire_fields.integer(frame, "offset"),
                            wire_fields.integer(frame, "next"),
                        )
                        found.append(Chunk(offset, frame.payload, max(following, at + 1)))
                        at = found[-1].next if isinstance(found[-1], Chunk) else at
                    case "gap":
                        gap = CastGap(
                            wire_fields.integer(frame, "offset"), wire_fields.integer(frame, "size", 1)
                        )
                        found.append(gap)
                        at = gap.offset + gap.size
                if max(at - start, size) >= RANGE or len(found) >= MOST_PIECES:
                    break
        return found


class KeptRecording:
    """A `recording.Source`. The files are copied to a folder that is removed with it."""

    def __init__(self, engine: Engine, container_id: str, shell: str) -> None:
        """Copy the files.

        Raises:
            EngineError: the container or its files do not exist any more.
        """
        paths = Layout().shell(shell)
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._output = self._copied(engine, container_id, paths.output, _OUTPUT)
        self._index = self._copied(engine, container_id, paths.recording, _INDEX)
        sizes = {int(path.name): path.stat().st_size for path in self._output}
        self._start = min(sizes, default=0)
        self._end = max((first + size for first, size in sizes.items()), default=0)
        # The shell's token is in its supervisor's memory only, and the most frequent one is taken for it: a
        # session that forges another only hides its own output.
        words = Counter(_WORD.findall(self._read(self._start, min(self._end - self._start, 4 * _READ))))
        self._marks = MarkFilter(words.most_common(1)[0][0].decode() if words else "none")

    def kept(self) -> KeptRange:
        """Return the range of output that is kept."""
        return KeptRange(self._start, self._end)

    def segments(self, start: int, end: int) -> list[bytes]:
        """Yield the whole index: it is small."""
        del start, end
        return [data for path in self._index if (data := path.read_bytes())]

    def output(self, start: int, end: int) -> Iterator[Chunk | CastGap]:
        """Yield a part of the output."""
        if start < self._start:
            yield CastGap(start, self._start - start)
            start = self._start
        at = start
        while at < end:
            base = max(self._start, at - MAX_MARK)
            data = self._read(base, min(end - base, _READ))
            final = base + len(data) >= end
            pieces, following = self._marks.pieces(data, base, at, final=final)
            yield from (Chunk(piece.offset, piece.data, piece.next) for piece in pieces)
            if following == at:
                return
            at = following

    def _read(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            first = offset - offset % SEGMENT_SIZE
            size = min(length, first + SEGMENT_SIZE - offset)
            path = self._folder / f"{first:016d}"
            data = b""
            if path.exists():
                with path.open("rb") as file:
                    file.seek(offset - first)
                    data = file.read(size)
            parts.append(data.ljust(size, b"\0"))
            offset, length = offset + size, length - size
        return b"".join(parts)

    def _copied(self, engine: Engine, container_id: str, source: Path, wanted: re.Pattern[str]) -> list[Path]:
        return sorted(_unpacked(engine.files.archive(container_id, str(source)), self._folder, wanted, MOST))


def _unpacked(archive: Iterable[bytes], into: Path, wanted: re.Pattern[str], limit: int) -> list[Path]:
    """Extract the regular files with wanted names into a folder, up to limit bytes in total, and return them.

    Links, folders and other names are skipped, and so is everything beyond the limit.

    Raises:
        ProtocolError: it is not an archive, or much larger than the limit.
    """
    written: list[Path] = []
    try:
        opened = BoundedTar(cast("IO[bytes]", _Pieces(archive, 2 * limit + HEADERS)))
        for member in opened:
            name = member.name.rpartition("/")[2]
            if not member.isreg() or not wanted.fullmatch(name) or member.size > limit:
                continue
            limit -= member.size
            content = opened.content(member)
            assert content is not None
            with (into / name).open("wb") as file:
                shutil.copyfileobj(content, file)
            written.append(into / name)
    except tarfile.TarError as error:
        raise ProtocolError(f"cannot read the files of a container: {error}") from error
    return written


class _Pieces(io.RawIOBase):
    """Pieces of bytes as one file."""

    def __init__(self, pieces: Iterable[bytes], limit: int) -> None:
        self._pieces = iter(pieces)
        self._left = limit
        self._rest = bytearray()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._left -= len(piece)
            if self._left < 0:
                raise ProtocolError("cannot read the files of a container: there are too many")
            self._rest += piece
        size = len(self._rest) if size < 0 else size
        data = bytes(self._rest[:size])
        del self._rest[:size]
        return data
