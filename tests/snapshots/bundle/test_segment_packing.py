from __future__ import annotations

import gzip
import io
import os
import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import zstandard

from holdfast.errors import BundleRefused
from holdfast.snapshots.bundle import segment_packing

DATA = b"".join(b"%d words of %d\n" % (number * 7919 % 10007, number) for number in range(300_000))


def _open(data: bytes, kind: str, limit: int) -> bytes:
    return b"".join(segment_packing.opened(io.BytesIO(data), kind, limit))


@pytest.mark.parametrize("size", [0, 1, segment_packing.BLOCK, 3 * segment_packing.BLOCK + 17])
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_what_is_packed_is_opened_to_the_byte(kind: str, size: int) -> None:
    """Also across the blocks that are compressed apart from each other."""
    data = (os.urandom(1000) * (size // 1000 + 1))[:size]
    packed = b"".join(getattr(segment_packing, kind)([data[:5], data[5:]]))

    assert _open(packed, kind, size) == data
    if kind == "gzip":
        assert gzip.decompress(packed) == data


def test_what_is_not_packed_is_opened_as_it_is() -> None:
    data = os.urandom(segment_packing.BLOCK + 17)
    assert _open(data, "tar", len(data)) == data
    with pytest.raises(BundleRefused, match="declared size"):
        _open(data, "tar", len(data) + 1)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_layer_that_is_larger_than_it_says_is_refused_while_it_is_opened(kind: str) -> None:
    """A bomb fills neither memory nor disk: of 64 MiB at most what was declared is given out."""
    packed = b"".join(getattr(segment_packing, kind)([bytes(64 << 20)]))
    given: list[int] = []

    with pytest.raises(BundleRefused, match="declared size"):
        given.extend(len(block) for block in segment_packing.opened(io.BytesIO(packed), kind, 1 << 20))

    assert sum(given) <= 1 << 20


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_layer_that_is_smaller_than_it_says_or_cut_short_is_refused(kind: str) -> None:
    """Nothing is made up for what is missing."""
    packed = b"".join(getattr(segment_packing, kind)([os.urandom(100_000)]))

    for data, size in ((packed, 100_001), (packed[:50_000], 100_000), (b"no such thing", 100)):
        with pytest.raises(BundleRefused):
            _open(data, kind, size)


def test_members_of_gzip_after_each_other_are_one_layer() -> None:
    """Tools that compress in parallel write them."""
    assert _open(gzip.compress(b"one") + gzip.compress(b" two"), "gzip", 7) == b"one two"


def test_a_segment_comes_back_and_says_its_size() -> None:
    """Its header is compared with the announced size before it is opened."""
    data = os.urandom(5000) * 3

    assert segment_packing.open_segment(segment_packing.segment(data), len(data)) == data
    assert segment_packing.segment(data) == segment_packing.segment(data)


def test_a_segment_of_another_size_or_with_more_behind_it_is_refused() -> None:
    """Also one that does not tell its size, or asks for a window beyond the limit."""
    data = bytes(100_000)
    packed = segment_packing.segment(data)
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    parameters = zstandard.ZstdCompressionParameters(window_log=29, enable_ldm=True, write_content_size=True)
    wide = zstandard.ZstdCompressor(compression_params=parameters).compressobj(size=(1 << 28) + 1)
    head = wide.compress(b"x") + wide.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    for given, size in (
        (packed, 99_999),
        (packed + packed, 100_000),
        (silent, 100_000),
        (head, (1 << 28) + 1),
    ):
        with pytest.raises(BundleRefused):
            segment_packing.open_segment(given, size)
    with pytest.raises(BundleRefused):
        segment_packing.open_segment(zlib.compress(data), 100_000)


def test_many_members_of_gzip_cost_as_much_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind a member is copied for it: never more than one step, however many there are."""
    behind: list[int] = []
    really = zlib.decompressobj

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._it = really(wbits=wbits)

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._it, name)
            if name == "unused_data":
                behind.append(len(found))
            return found

    monkeypatch.setattr(zlib, "decompressobj", Counted)

    assert _open(gzip.compress(b"") * 50_000 + gzip.compress(b"end"), "gzip", 3) == b"end"
    assert len(behind) == 50_001
    assert max(behind) <= 4096


def test_too_many_members_of_gzip_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of nothing but empty members ends."""
    monkeypatch.setattr(segment_packing, "MAX_GZIP_MEMBERS", 1000)

    with pytest.raises(BundleRefused, match="too many parts"):
        _open(gzip.compress(b"") * 1001, "gzip", 3)


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
