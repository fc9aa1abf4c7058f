from __future__ import annotations

import io
import random

from holdfast.snapshots.bundle import cutting
from holdfast.snapshots.bundle.cutting import PAGE, FilePiece


def _noise(pages: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(pages * PAGE)


def _pieces(data: bytes) -> list[FilePiece]:
    return list(cutting.pieces(io.BytesIO(data)))


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
    """Cuts are where the pages say, not where a count is full: what follows has the digests it had."""
    data = _noise(9_000)
    before = {piece.data for piece in _pieces(data)}
    after = {piece.data for piece in _pieces(data[: 50 * PAGE] + _noise(3, seed=2) + data[50 * PAGE :])}

    assert len(before) > 1
    assert len(after - before) == 1


def test_no_segment_is_larger_than_the_most() -> None:
    """However the pages fall."""
    for piece in _pieces(b"\1" * (80 << 20)):
        assert piece.size <= cutting.MOST


def test_small_files_share_segments() -> None:
    """Each is found by its place; none is cut in two."""
    files = [(f"file-{number}", _noise(100, number)) for number in range(30)]
    found = list(cutting.together(files))

    assert len(found) == 3
    for data, places in found:
        for name, offset, size in places:
            assert data[offset : offset + size] == dict(files)[name]
