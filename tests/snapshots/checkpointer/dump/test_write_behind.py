"""Writing behind: in order, with parts left out, and with every error that occurs on the way."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.dump.write_behind import BUFFERS, WriteBehind

PIECE = 4096


@pytest.mark.parametrize("hurried", [False, True])
def test_parts_are_written_in_order_whatever_the_number_of_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hurried: bool
) -> None:
    """A buffer is given out again only after it is written; the disk begins in the meantime."""
    monkeypatch.setattr("holdfast.snapshots.checkpointer.dump.write_behind.STRETCH", 3 * PIECE)
    expected = b""
    with (tmp_path / "file").open("xb", buffering=0) as file:
        file.write(b"before")
        with closing(WriteBehind(file.fileno(), PIECE, hurried=hurried)) as behind:
            for number in range(BUFFERS * 5):
                data = behind.buffer()
                data[:] = bytes([number]) * PIECE
                behind.send(data, [(0, 1 + number), (PIECE - 7, 7)])
                expected += bytes([number]) * (8 + number)
            behind.settle()
            file.write(b"after")
    assert (tmp_path / "file").read_bytes() == b"before" + expected + b"after"


def test_a_full_disk_is_reported_to_waiting_and_sending_callers() -> None:
    """And nothing hangs that was sent after it."""
    with (
        Path("/dev/full").open("wb", buffering=0) as file,
        closing(WriteBehind(file.fileno(), PIECE)) as behind,
    ):
        behind.send(behind.buffer(), [(0, PIECE)])
        with pytest.raises(OSError, match="No space left"):
            behind.settle()
        for _ in range(BUFFERS - 1):
            behind.send(behind.buffer(), [(0, PIECE)])
        with pytest.raises(OSError, match="No space left"):
            behind.buffer()
