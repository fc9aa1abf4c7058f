import random
from pathlib import Path

import pytest

from holdfast.runtime.guest.records.streamlog import SegmentIndex, SegmentSpan, StreamLog


def test_spans_cover_appended_text() -> None:
    """Appended bytes are contiguous, cut at the ends of segments."""
    index = SegmentIndex(10, 100)
    assert index.append(7) == [SegmentSpan(0, 0, 7)]
    assert index.append(15) == [SegmentSpan(0, 7, 3), SegmentSpan(10, 0, 10), SegmentSpan(20, 0, 2)]
    assert index.locate(5, 100) == SegmentSpan(0, 5, 5)
    assert index.locate(10, 3) == SegmentSpan(10, 0, 3)
    assert index.locate(22, 1) is None


def test_the_oldest_segments_go_first() -> None:
    """Bytes over the capacity are dropped in whole segments, and cannot be read."""
    index = SegmentIndex(10, 20)
    index.append(35)
    assert index.trim() == [0, 10]
    assert (index.start, index.end) == (20, 35)
    with pytest.raises(ValueError, match="starts at 20"):
        index.locate(19, 1)


def test_forgetting_all_leaves_an_empty_stream_that_continues() -> None:
    """After everything is forgotten the stream continues at the same offset."""
    index = SegmentIndex(10, 20)
    index.append(15)
    assert index.forget(index.end) == [0, 10]
    assert (index.start, index.end) == (15, 15)
    assert index.append(2) == [SegmentSpan(10, 5, 2)]
    assert index.forget(index.end) == [10]


def test_negative_offsets_count_from_the_end() -> None:
    """A reader can ask for the last bytes without knowing where they are."""
    index = SegmentIndex(10, 20)
    index.append(35)
    index.trim()
    assert [index.clamp(offset) for offset in (-5, -100, 0, 25, 99)] == [30, 20, 20, 25, 35]


def test_a_log_returns_written_data(tmp_path: Path) -> None:
    """Random writes of random sizes are read back from any offset."""
    random.seed(7)
    log, written = StreamLog(tmp_path / "log", 1 << 20, segment_size=1000), b""
    for _ in range(200):
        data = random.randbytes(random.randrange(300))
        log.append(data)
        written += data
    for _ in range(200):
        offset, size = random.randrange(len(written)), random.randrange(5000)
        assert log.read(offset, size) == written[offset : offset + size]


def test_a_log_stays_within_its_capacity(tmp_path: Path) -> None:
    """Files never hold more than the capacity and one segment."""
    log = StreamLog(tmp_path / "log", 5000, segment_size=1000)
    for _ in range(100):
        log.append(b"x" * 777)
        assert sum(path.stat().st_size for path in (tmp_path / "log").iterdir()) <= 6000
    assert log.end == 77700
    assert log.end - log.start <= 5000


def test_a_write_that_fails_becomes_a_gap(tmp_path: Path) -> None:
    """When writing is impossible, kept output reads as a gap, and the stream recovers."""
    log = StreamLog(tmp_path / "log", 5000, segment_size=1000)
    log.append(b"x" * 1500)
    (tmp_path / "log").rename(tmp_path / "away")
    log.append(b"y" * 1000)
    assert (log.start, log.end) == (2500, 2500)
    (tmp_path / "away").rename(tmp_path / "log")
    log.append(b"z" * 10)
    assert log.read(2500, 100) == b"z" * 10
