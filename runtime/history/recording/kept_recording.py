"""The recording of a session that does not run any more, from the files of its container.

The container belonged to the guest: of what is copied out only regular files with the names of segments are
read, up to a limit.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from holdfast.engine.engine import Engine
from holdfast.runtime.guest.layout import Layout
from holdfast.runtime.guest.records.streamlog import SEGMENT_SIZE
from holdfast.runtime.guest.shells.marks import MAX_MARK, MarkFilter
from holdfast.runtime.history.recording import unpack_recording
from holdfast.runtime.history.recording.cast import CastGap, Chunk
from holdfast.runtime.history.recording.recording import KeptRange

_READ = 256 << 10
_WORD = re.compile(rb"\x1b\]133;[A-Z](?:;\d{1,3})?;hf=([0-9a-f]{16});n=\d")
_OUTPUT = re.compile(r"\d{16}")
_INDEX = re.compile(r"\d{8}")
# What a supervisor keeps of both, and some room.
MOST = 320 << 20


class KeptRecording:
    """A `recording.Source`. The files are copied to a folder that is removed with it."""

    def __init__(self, engine: Engine, container_id: str, shell: str) -> None:
        """Copy the files.

        Raises:
            EngineError: the container or its files are gone.
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
        return sorted(
            unpack_recording.files(
                engine.files.archive(container_id, str(source)), self._folder, wanted, MOST
            )
        )
