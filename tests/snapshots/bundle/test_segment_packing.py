"""Compression of a bundle's parts gives the same bytes however it is run, and any tool can open them."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable, Iterable, Iterator

import pytest
import zstandard

from holdfast.snapshots.bundle import segment_packing

DATA = b"".join(b"%d words of %d\n" % (number * 7919 % 10007, number) for number in range(300_000))


def _cut(data: bytes, seed: int) -> Iterator[bytes]:
    """Yield pieces of any size, empty ones included."""
    draw, at = random.Random(seed), 0
    while at < len(data):
        size = draw.choice((0, 1, 4096, 100_000, segment_packing.BLOCK, 3_000_000))
        yield data[at : at + size]
        at += size


def test_blocks_do_not_show_how_the_data_arrived() -> None:
    """All have one size but the last, whatever the pieces."""
    for seed in range(20):
        blocks = list(segment_packing.even(_cut(DATA, seed)))
        assert b"".join(blocks) == DATA
        assert {len(block) for block in blocks[:-1]} == {segment_packing.BLOCK}
    assert list(segment_packing.even([])) == []
    assert list(segment_packing.even([b"", b"a", b""])) == [b"a"]


@pytest.mark.parametrize("pack", [segment_packing.gzip, segment_packing.zstd])
def test_the_same_bytes_give_the_same_result(
    pack: Callable[[Iterable[bytes]], Iterator[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any number of cores: digests of layers must not depend on the machine."""
    first = b"".join(pack([DATA]))
    for threads in (1, 3, 8):
        monkeypatch.setattr(segment_packing, "_THREADS", threads)
        monkeypatch.setattr(segment_packing, "_ZSTD_THREADS", threads)
        assert b"".join(pack(_cut(DATA, threads))) == first


def test_ordinary_tools_open_it() -> None:
    """One member of gzip, one frame of zstd."""
    assert gzip.decompress(b"".join(segment_packing.gzip(_cut(DATA, 1)))) == DATA
    packed = b"".join(segment_packing.zstd(_cut(DATA, 2)))
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)).read() == DATA
    assert gzip.decompress(b"".join(segment_packing.gzip([]))) == b""
