"""Searches for bytes wherever a session leaves data: files, packed or not, and the memory of processes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from holdfast.base import polling
from holdfast.snapshots.chunks.packs import HEAD, Pack

_OVERLAP = 4096
_PIECE = 8 << 20


def in_folder(folder: Path, needle: bytes, but: Iterable[Path] = ()) -> list[str]:
    """Return the files below a folder that contain the bytes; compressed ones are searched unpacked.

    A pack that is still being written cannot be searched; it is waited for.
    """
    assert polling.until(lambda: not any((folder / "chunks").rglob(".*.part")), 120)
    skipped = tuple(but)
    return [
        str(path)
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink() and path.is_file() and not any(path.is_relative_to(one) for one in skipped)
        if any(_has(piece, needle) for piece in _contents(path))
    ]


def in_memory(pid: int, needle: bytes) -> bool:
    """Check whether a process has them in readable memory; False if the process has ended."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            return any(_has(piece, needle) for piece in _mapped(memory.fileno(), maps))
    except (FileNotFoundError, ProcessLookupError):
        return False


def _mapped(memory: int, maps: list[str]) -> Iterator[bytes]:
    import os

    for line in maps:
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r.*?(\[v\w+\])?$", line)
        if found is None or found[3]:
            continue
        start, end = int(found[1], 16), int(found[2], 16)
        while start < end:
            try:
                piece = os.pread(memory, min(_PIECE, end - start), start)
            except OSError:
                break
            if not piece:
                break
            yield piece
            start += (
                max(len(piece) - _OVERLAP, 1)
                if len(piece) > _OVERLAP and start + len(piece) < end
                else len(piece)
            )


def _contents(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        packed = file.read(len(HEAD)) == HEAD
    if packed:
        pack = Pack(path)
        yield from (pack.block(number) for number in range(len(pack.directory.places)))
        pack.close()
        return
    data = path.read_bytes()
    yield data
    if data.startswith(b"\x1f\x8b"):
        yield gzip.decompress(data)
    elif data.startswith(b"\x28\xb5\x2f\xfd"):
        yield zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _has(data: bytes, needle: bytes) -> bool:
    return needle in data
