"""The writer of packs: each has a temporary name until it is on the disk, then is renamed in one step.

Blocks are compressed in threads, a few ahead of the writer, so memory stays bounded.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import zstandard
from blake3 import blake3

from holdfast.base import private_files
from holdfast.snapshots.chunks.packs import (
    BLOCK,
    DIGEST,
    FOOT,
    GROUP_BYTES,
    HEAD,
    PAGE,
    SUFFIX,
    Directory,
    digest,
)

LEVEL = 1
BLOCK_BYTES = BLOCK * PAGE
AHEAD = 8
"""Blocks that can wait to be compressed: 2 MiB."""
PART = ".part"
SAMPLE = 4
"""Pages of a block, spread over it, tried first: if they do not compress, all is stored plain, at disk speed.
"""
WORTH = 0.95
_OF_THREAD = threading.local()


class PackWriter:
    """One pack while it is written. `close` makes it valid, `abandon` removes it."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor, name: str | None = None) -> None:
        """Begin a pack; under an existing name it will replace that pack."""
        self.name = name or secrets.token_hex(5)
        self._folder = folder
        self._part = folder / f".{self.name}{PART}"
        self._file = private_files.create(self._part)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not the leftover of a killed process
        self._file.write(HEAD)
        self._at = len(HEAD)
        self._pool = pool
        self._digests = bytearray()
        self._present = bytearray()
        self._groups: list[bytes] = []
        self._places: list[tuple[int, int, int]] = []
        self._block = bytearray()
        self._waiting: deque[tuple[int, Future[tuple[bytes, bytes]]]] = deque()
        self._synced = False

    @property
    def pages(self) -> int:
        """The number of pages added."""
        return len(self._present)

    def add_all(self, pages: memoryview, names: bytes) -> int:
        """Add pages with their digests, for which there is room; return the number of the first."""
        number = len(self._present)
        self._digests += names
        self._present += b"\1" * (len(pages) // PAGE)
        room = BLOCK_BYTES - len(self._block)
        self._block += pages[:room]
        if len(self._block) == BLOCK_BYTES:
            self._send()
            self._block += pages[room:]
        return number

    def digest(self, page: int) -> bytes:
        """Return the digest of a page that was added."""
        return bytes(self._digests[page * DIGEST : (page + 1) * DIGEST])

    def thin(self, block: bytes, present: bytes, digests: bytes, groups: bytes) -> None:
        """Add a block of another pack with only some of its pages left; its digests stay unchanged."""
        self._digests += digests
        self._present += present
        self._waiting.append((len(block), self._pool.submit(_packed, block, groups)))
        self._drain(AHEAD)

    def sync(self) -> None:
        """Write all added data, and wait until they are on the disk. No more can be added afterwards.

        Raises:
            OSError: it cannot be written.
        """
        if self._block:
            self._send()
        self._drain(0)
        held = Directory(
            tuple(self._places), bytes(self._present), bytes(self._digests), b"".join(self._groups)
        )
        data = held.encode()
        self._file.write(data)
        self._file.write(
            FOOT.pack(self.pages, len(self._places), len(data), blake3(data).digest(), HEAD),
        )
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = True

    def close(self) -> int:
        """Make it durable and valid; return its size in bytes.

        Raises:
            OSError: it cannot be written.
        """
        if not self._synced:
            self.sync()
        written = self._file.tell()
        self._part.rename(self._folder / f"{self.name}{SUFFIX}")
        self._file.close()
        return written

    def abandon(self) -> None:
        """Remove the unfinished pack."""
        for _, work in self._waiting:
            work.cancel()
        with suppress(OSError):  # what could not be written is written once more
            self._file.close()
        self._part.unlink(missing_ok=True)

    def _send(self) -> None:
        block, self._block = bytes(self._block), bytearray()
        self._waiting.append((len(block), self._pool.submit(_packed, block, None)))
        self._drain(AHEAD)

    def _drain(self, left: int) -> None:
        while len(self._waiting) > left:
            raw, work = self._waiting.popleft()
            data, groups = work.result()
            self._file.write(data)
            self._places.append((self._at, len(data), raw))
            self._groups.append(groups)
            self._at += len(data)


def _compressor() -> zstandard.ZstdCompressor:
    """Return this thread's compressor: to make one takes as long as to compress a block."""
    found: zstandard.ZstdCompressor | None = getattr(_OF_THREAD, "compressor", None)
    if found is None:
        found = _OF_THREAD.compressor = zstandard.ZstdCompressor(level=LEVEL)
    return found


def _packed(block: bytes, groups: bytes | None) -> tuple[bytes, bytes]:
    """Return a block as it is written, and the digests of its groups."""
    if groups is None:
        view = memoryview(block)
        starts: Sequence[int] = range(0, len(block), GROUP_BYTES)
        groups = b"".join(digest(view[start : start + GROUP_BYTES]) for start in starts)
    compressor = _compressor()
    if len(block) == BLOCK_BYTES:
        sample = b"".join([block[at : at + PAGE] for at in range(0, BLOCK_BYTES, BLOCK_BYTES // SAMPLE)])
        if len(compressor.compress(sample)) > len(sample) * WORTH:
            return block, groups
    data = compressor.compress(block)
    return (data if len(data) < len(block) * WORTH else block), groups
