"""Segments of a bundle: files are cut so that equal parts become equal segments, and compressed.

A cut in memory depends only on the pages at that place: a page whose checksum ends in zeros is the last
of its segment, so an insertion moves cuts with it. Long runs of zeros belong to no segment. The same bytes
are compressed to the same result, on any number of cores. Data from elsewhere is never decompressed beyond
its declared size.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Protocol, cast

import zstandard
from isal import isal_zlib

from holdfast.errors import BundleRefused

BLOCK = 1 << 20
WINDOW_LOG = 27
"""128 MiB: the memory a frame can ask for to be decompressed."""
GZIP_LEVEL = 2
"""Of ISA-L. On 300 MB of a Debian system: seven times as fast as level 3 of zlib, and 6 % more bytes."""
ZSTD_LEVEL = 3
MAX_GZIP_MEMBERS = 1_000_000
"""Most members of one layer. Some tools begin one per file; an empty one has 20 bytes, and costs 5 µs."""
_STEP = 1 << 12
_THREADS = 4
_ZSTD_THREADS = 2
"""With threads zstd gives other bytes than without, but the same for every number of them."""
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""Deflate, no name, no time, of an unknown system (RFC 1952)."""
PAGE = 4096
LEAST_SEGMENT = 4 << 20
MOST_SEGMENT = 32 << 20
_MASK = (16 << 20) // PAGE - 1
"""One page in this many ends a segment: 16 MiB on average, beyond the minimum."""
_ZEROS = bytes(PAGE)
ZERO_RUN = 64
"""Least pages of zeros that are left out; fewer cost less inside a segment than a second segment."""
_READ = 256


class ReadableStream(Protocol):
    """A readable stream."""

    def read(self, size: int = -1, /) -> bytes:
        """Read up to this many bytes; nothing at its end."""


def even(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in blocks of one size, so that the transfer's cuts do not show."""
    held = bytearray()
    for block in blocks:
        if not held and len(block) == BLOCK:
            yield block
            continue
        held += block
        if len(held) >= BLOCK:
            whole = len(held) - len(held) % BLOCK
            with memoryview(held) as view:
                yield from (bytes(view[at : at + BLOCK]) for at in range(0, whole, BLOCK))
            del held[:whole]
    if held:
        yield bytes(held)


def gzip(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield one gzip member. Blocks are compressed independently, and so in parallel."""
    check, size = 0, 0
    yield _GZIP_HEADER
    for block, packed in _ahead(blocks, _deflate):
        check, size = isal_zlib.crc32(block, check), size + len(block)
        yield packed
    yield b"\x03\x00"  # an empty last block
    yield struct.pack("<II", check, size & 0xFFFFFFFF)


def zstd(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield one zstd frame."""
    packing = zstandard.ZstdCompressor(
        level=ZSTD_LEVEL, write_checksum=False, threads=_ZSTD_THREADS
    ).compressobj()
    for block in even(blocks):
        packed = packing.compress(block)
        if packed:
            yield packed
    yield packing.flush()


def segment(data: bytes) -> bytes:
    """Return one segment as a zstd frame that states its size."""
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=False).compress(data)


def open_segment(packed: bytes, size: int) -> bytes:
    """Reverse `segment`; the result must have `size` bytes.

    Raises:
        BundleRefused: it is not such a segment, is larger, or needs more memory than allowed.
    """
    try:
        frame = zstandard.get_frame_parameters(packed)
        if frame.content_size != size or frame.window_size > 1 << WINDOW_LOG:
            raise BundleRefused("cannot import: a segment does not have its declared size")
        opening = zstandard.ZstdDecompressor().decompressobj()
        data = opening.decompress(packed)
        if len(data) != size or opening.unused_data or not opening.eof:
            raise BundleRefused("cannot import: a segment does not have its declared size")
    except zstandard.ZstdError as error:
        raise BundleRefused("cannot import: a segment cannot be decompressed") from error
    return data


def opened(stream: ReadableStream, kind: str, limit: int) -> Iterator[bytes]:
    """Yield the content of a `gzip`, `zstd` or `tar` stream, exactly `limit` bytes, a little at a time.

    Raises:
        BundleRefused: it holds more or less, or is not such a stream.
    """
    left = limit
    try:
        for block in _DECODERS[kind](stream):
            left -= len(block)
            if left < 0:
                break
            yield block
    except (zlib.error, zstandard.ZstdError) as error:
        raise BundleRefused("cannot import: a layer of its image cannot be decompressed") from error
    if left:
        raise BundleRefused("cannot import: a layer of its image does not have its declared size")


def _gunzip(stream: ReadableStream) -> Iterator[bytes]:
    """Yield the content of consecutive gzip members, as parallel compressors write them."""
    opening, members = zlib.decompressobj(wbits=31), 1
    while data := stream.read(BLOCK):
        # In small steps: zlib copies everything after the end of a member, for each member.
        for at in range(0, len(data), _STEP):
            step = data[at : at + _STEP]
            while step:
                yield opening.decompress(step, BLOCK)
                step = opening.unconsumed_tail
                if opening.eof:
                    step = opening.unused_data
                    opening, members = zlib.decompressobj(wbits=31), members + 1
                    if members > MAX_GZIP_MEMBERS:
                        raise BundleRefused("cannot import: a layer of its image has too many parts")
    yield opening.flush()  # the rest that the last step had no room for; less than a step


def _unzstd(stream: ReadableStream) -> Iterator[bytes]:
    reading = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).stream_reader(
        cast("BinaryIO", stream), read_across_frames=True, closefd=False
    )
    while data := reading.read(BLOCK):
        yield data


def _deflate(block: bytes) -> bytes:
    """Return a block as part of a deflate stream. Foreign compressed data are opened with zlib alone."""
    packing = isal_zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packing.compress(block) + packing.flush(zlib.Z_SYNC_FLUSH)


def _ahead(blocks: Iterable[bytes], work: Callable[[bytes], bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each block with the result of `work`, in order, computed a few ahead."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="pack") as pool:
        pending: deque[tuple[bytes, Future[bytes]]] = deque()
        for block in even(blocks):
            pending.append((block, pool.submit(work, block)))
            if len(pending) > 2 * _THREADS:
                first, made = pending.popleft()
                yield first, made.result()
        for first, made in pending:
            yield first, made.result()


def _stored(stream: ReadableStream) -> Iterator[bytes]:
    """Yield the content of a stream that is not compressed."""
    return iter(functools.partial(stream.read, BLOCK), b"")


_DECODERS: dict[str, Callable[[ReadableStream], Iterator[bytes]]] = {
    "gzip": _gunzip,
    "zstd": _unzstd,
    "tar": _stored,
}


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A contiguous range of a file; without data it is zeros."""

    size: int
    data: bytes | None = None


def pieces(file: ReadableStream) -> Iterator[FilePiece]:
    """Yield a file in pieces, from its beginning to its end."""
    held = bytearray()
    zeros = 0
    for page in _pages(file):
        if page == _ZEROS:
            zeros += 1
            continue
        if zeros >= ZERO_RUN:
            if held:
                yield FilePiece(len(held), bytes(held))
                held = bytearray()
            yield FilePiece(zeros * PAGE)
        else:
            held += bytes(zeros * PAGE)
        zeros = 0
        held += page
        if len(held) >= MOST_SEGMENT or (len(held) >= LEAST_SEGMENT and zlib.crc32(page) & _MASK == 0):
            yield FilePiece(len(held), bytes(held))
            held = bytearray()
    if zeros < ZERO_RUN:
        held += bytes(zeros * PAGE)
    if held:
        yield FilePiece(len(held), bytes(held))
    if zeros >= ZERO_RUN:
        yield FilePiece(zeros * PAGE)


def _pages(file: ReadableStream) -> Iterator[bytes]:
    while block := file.read(_READ * PAGE):
        for start in range(0, len(block), PAGE):
            yield block[start : start + PAGE]


def together(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[bytes, list[tuple[str, int, int]]]]:
    """Combine small files into few segments: the segment, and for each file its name, offset and size."""
    held, places = bytearray(), list[tuple[str, int, int]]()
    for name, data in files:
        places.append((name, len(held), len(data)))
        held += data
        if len(held) >= LEAST_SEGMENT:
            yield bytes(held), places
            held, places = bytearray(), []
    if places:
        yield bytes(held), places
