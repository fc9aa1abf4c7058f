"""Extraction of regular files from a tar archive that a guest may have influenced."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

from holdfast.base.bounded_tar import BoundedTar
from holdfast.errors import ProtocolError

HEADERS = 1 << 20
"""Bytes of an archive in addition to the contents of its files."""


def files(archive: Iterable[bytes], into: Path, wanted: re.Pattern[str], limit: int) -> list[Path]:
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
