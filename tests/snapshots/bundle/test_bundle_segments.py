"""Segments of a bundle: where files are cut, and how they are compressed."""

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
from holdfast.snapshots.bundle import bundle_segments
from holdfast.snapshots.bundle.bundle_segments import PAGE, FilePiece

DATA = b"".join(b"%d words of %d\n" % (number * 7919 % 10007, number) for number in range(300_000))


def _open(data: bytes, kind: str, limit: int) -> bytes:
    return b"".join(bundle_segments.opened(io.BytesIO(data), kind, limit))


@pytest.mark.parametrize("size", [0, 1, bundle_segments.BLOCK, 3 * bundle_segments.BLOCK + 17])
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_packed_images_are_opened_to_the_byte(kind: str, size: int) -> None:
    """Also across the separately compressed blocks."""
    data = (os.urandom(1000) * (size // 1000 + 1))[:size]
    packed = b"".join(getattr(bundle_segments, kind)([data[:5], data[5:]]))

    assert _open(packed, kind, size) == data
    if kind == "gzip":
        assert gzip.decompress(packed) == data


def test_plain_images_are_opened_as_they_are() -> None:
    data = os.urandom(bundle_segments.BLOCK + 17)
    assert _open(data, "tar", len(data)) == data
    with pytest.raises(BundleRefused, match="declared size"):
        _open(data, "tar", len(data) + 1)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_layer_that_is_larger_than_it_says_is_refused_while_it_is_opened(kind: str) -> None:
    """A bomb fills neither memory nor disk: of 64 MiB at most what was declared is given out."""
    packed = b"".join(getattr(bundle_segments, kind)([bytes(64 << 20)]))
    given: list[int] = []

    with pytest.raises(BundleRefused, match="declared size"):
        given.extend(len(block) for block in bundle_segments.opened(io.BytesIO(packed), kind, 1 << 20))

    assert sum(given) <= 1 << 20


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_layer_that_is_smaller_than_it_says_or_cut_short_is_refused(kind: str) -> None:
    """Missing bytes are never made up."""
    packed = b"".join(getattr(bundle_segments, kind)([os.urandom(100_000)]))

    for data, size in ((packed, 100_001), (packed[:50_000], 100_000), (b"no such thing", 100)):
        with pytest.raises(BundleRefused):
            _open(data, kind, size)


def test_members_of_gzip_after_each_other_are_one_layer() -> None:
    """Tools that compress in parallel write them."""
    assert _open(gzip.compress(b"one") + gzip.compress(b" two"), "gzip", 7) == b"one two"


def test_a_segment_comes_back_and_says_its_size() -> None:
    """Its header is compared with the announced size before it is opened."""
    data = os.urandom(5000) * 3

    assert bundle_segments.open_segment(bundle_segments.segment(data), len(data)) == data
    assert bundle_segments.segment(data) == bundle_segments.segment(data)


def test_a_segment_of_a_different_size_or_with_more_behind_it_is_refused() -> None:
    """Also one that does not tell its size, or asks for a window beyond the limit."""
    data = bytes(100_000)
    packed = bundle_segments.segment(data)
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
            bundle_segments.open_segment(given, size)
    with pytest.raises(BundleRefused):
        bundle_segments.open_segment(zlib.compress(data), 100_000)


def test_many_members_of_gzip_cost_as_much_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest after a member is copied for it: never more than one step, however many there are."""
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
    monkeypatch.setattr(bundle_segments, "MAX_GZIP_MEMBERS", 1000)

    with pytest.raises(BundleRefused, match="too many parts"):
        _open(gzip.compress(b"") * 1001, "gzip", 3)


def _cut(data: bytes, seed: int) -> Iterator[bytes]:
    """Yield pieces of any size, empty ones included."""
    draw, at = random.Random(seed), 0
    while at < len(data):
        size = draw.choice((0, 1, 4096, 100_000, bundle_segments.BLOCK, 3_000_000))
        yield data[at : at + size]
        at += size


def test_blocks_do_not_show_how_the_data_arrived() -> None:
    """All have one size but the last, whatever the pieces."""
    for seed in range(20):
        blocks = list(bundle_segments.even(_cut(DATA, seed)))
        assert b"".join(blocks) == DATA
        assert {len(block) for block in blocks[:-1]} == {bundle_segments.BLOCK}
    assert list(bundle_segments.even([])) == []
    assert list(bundle_segments.even([b"", b"a", b""])) == [b"a"]


@pytest.mark.parametrize("pack", [bundle_segments.gzip, bundle_segments.zstd])
def test_the_same_bytes_give_the_same_result(
    pack: Callable[[Iterable[bytes]], Iterator[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any number of cores: digests of layers must not depend on the machine."""
    first = b"".join(pack([DATA]))
    for threads in (1, 3, 8):
        monkeypatch.setattr(bundle_segments, "_THREADS", threads)
        monkeypatch.setattr(bundle_segments, "_ZSTD_THREADS", threads)
        assert b"".join(pack(_cut(DATA, threads))) == first


def _noise(pages: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(pages * PAGE)


def _pieces(data: bytes) -> list[FilePiece]:
    return list(bundle_segments.pieces(io.BytesIO(data)))


def _joined(pieces: list[FilePiece]) -> bytes:
    return b"".join(bytes(piece.size) if piece.data is None else piece.data for piece in pieces)


def test_the_pieces_are_the_file() -> None:
    """With zeros at any place, and an end within a page."""
    for data in (
        b"",
        b"short",
        bytes(PAGE),
        bytes(1000 * PAGE),
        _noise(10) + bytes(63 * PAGE) + _noise(3),
        bytes(64 * PAGE) + _noise(3) + bytes(200 * PAGE) + b"end",
        _noise(2_000) + bytes(100),
    ):
        assert _joined(_pieces(data)) == data


def test_long_runs_of_zeros_are_in_no_segment() -> None:
    """Short ones stay where they are: a segment more costs more than they do."""
    assert [piece.data is None for piece in _pieces(_noise(4) + bytes(64 * PAGE) + _noise(4))] == [
        False,
        True,
        False,
    ]
    assert len(_pieces(_noise(4) + bytes(63 * PAGE) + _noise(4))) == 1


def test_pages_that_are_inserted_change_one_segment() -> None:
    """Pages decide the cuts, not a full count: the segments after it keep their digests."""
    data = _noise(9_000)
    before = {piece.data for piece in _pieces(data)}
    after = {piece.data for piece in _pieces(data[: 50 * PAGE] + _noise(3, seed=2) + data[50 * PAGE :])}

    assert len(before) > 1
    assert len(after - before) == 1


def test_no_segment_is_larger_than_the_most() -> None:
    """However the pages fall."""
    for piece in _pieces(b"\1" * (80 << 20)):
        assert piece.size <= bundle_segments.MOST_SEGMENT


def test_small_files_share_segments() -> None:
    """Each is found by its place; none is cut in two."""
    files = [(f"file-{number}", _noise(100, number)) for number in range(30)]
    found = list(bundle_segments.together(files))

    assert len(found) == 3
    for data, places in found:
        for name, offset, size in places:
            assert data[offset : offset + size] == dict(files)[name]
