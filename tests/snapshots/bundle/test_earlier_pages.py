"""Equal pages are found wherever they moved to, and nothing is called equal that is not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.snapshots.bundle import earlier_pages
from holdfast.snapshots.bundle.earlier_pages import PAGE, SAMPLED, SHORTEST, EarlierPages, PageRange

NAME = "images/pages-1.img"
OTHER = "images/pages-2.img"


def _pages(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count * PAGE)


def _compared(folder: Path, earlier: dict[str, bytes], now: bytes, name: str = NAME) -> list[PageRange]:
    """Return the ranges of a file, after checking them against the file."""
    (folder / "images").mkdir(exist_ok=True)
    for path, data in earlier.items():
        (folder / path).write_bytes(data)
    (folder / "now").write_bytes(now)
    with EarlierPages(folder, earlier) as pages:
        found = pages.ranges(folder / "now", name)
    at = 0
    for one in found:
        if one.name is not None:
            assert earlier[one.name][one.offset : one.offset + one.size] == now[at : at + one.size]
        at += one.size
    assert at == len(now)
    return found


def _new(ranges: list[PageRange]) -> int:
    return sum(one.size for one in ranges if one.name is None)


def test_unchanged_memory_is_one_range(tmp_path: Path) -> None:
    before = _pages(500)
    assert _compared(tmp_path, {NAME: before}, before) == [PageRange(len(before), NAME)]
    assert _compared(tmp_path, {NAME: before}, b"") == []


def test_changed_pages_alone_are_new(tmp_path: Path) -> None:
    before = _pages(500)
    now = bytearray(before)
    for page in (0, 77, 78, 499):
        now[page * PAGE + 5] ^= 1
    assert _new(_compared(tmp_path, {NAME: before}, bytes(now))) == 4 * PAGE


@pytest.mark.parametrize("at", [0, 1, SAMPLED, SAMPLED + 1, 250, 499])
def test_pages_that_come_and_go_move_the_rest(tmp_path: Path, at: int) -> None:
    """None of the moved pages is new, also before the sampled one."""
    before = _pages(500)
    more = before[: at * PAGE] + _pages(3, 1) + before[at * PAGE :]
    assert _new(_compared(tmp_path, {NAME: before}, more)) <= 3 * PAGE + SHORTEST
    fewer = before[: at * PAGE] + before[(at + 7) * PAGE :]
    assert _new(_compared(tmp_path, {NAME: before}, fewer)) <= SAMPLED * PAGE


def test_a_file_is_found_under_a_different_name(tmp_path: Path) -> None:
    """A process that began in the meantime moves the numbers of those after it."""
    before = {NAME: _pages(100), OTHER: _pages(300, 1)}
    assert _new(_compared(tmp_path, before, before[OTHER], NAME)) == 0
    assert _new(_compared(tmp_path, before, before[OTHER], "images/pages-3.img")) == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_change_leaves_true_ranges(tmp_path: Path, seed: int) -> None:
    """Insertions, removals, repetitions, zeros, and a last page that is not whole."""
    chance = random.Random(seed)
    kinds = [_pages(1, 100 + kind) for kind in range(chance.choice([3, 400]))] + [bytes(PAGE)]
    before = b"".join(chance.choice(kinds) for _ in range(chance.randrange(1, 700)))
    now = before
    for _ in range(chance.randrange(8)):
        at = chance.randrange(len(now) // PAGE + 1) * PAGE
        cut = at + chance.choice([0, 1, 40]) * PAGE
        now = now[:at] + b"".join(chance.choice(kinds) for _ in range(chance.choice([0, 1, 90]))) + now[cut:]
    now += bytes(chance.choice([0, 1, 100]))
    for one in _compared(tmp_path, {NAME: before, OTHER: _pages(40, seed)}, now):
        assert one.name is None or one.size >= SHORTEST


def test_few_equal_pages_between_new_ones_are_new(tmp_path: Path) -> None:
    """A file in a great many pieces would cost more to describe than to send."""
    before = _pages(200)
    now = b"".join(
        _pages(1, page) if page % 2 else before[page * PAGE : (page + 1) * PAGE] for page in range(200)
    )
    assert _compared(tmp_path, {NAME: before}, now) == [PageRange(len(now))]


def test_a_file_that_changes_or_goes_is_read_as_it_was_opened(tmp_path: Path) -> None:
    """Removed, it stays; changed in place, it is no longer equal."""
    before = _pages(64)
    (tmp_path / "images").mkdir()
    path = tmp_path / NAME
    path.write_bytes(before)
    (tmp_path / "now").write_bytes(before)
    with EarlierPages(tmp_path, [NAME]) as pages:
        path.unlink()
        assert pages.ranges(tmp_path / "now", NAME) == [PageRange(len(before), NAME)]
        path.write_bytes(before)
    with EarlierPages(tmp_path, [NAME]) as pages:
        with path.open("r+b") as file:
            file.seek(10 * PAGE)
            file.write(b"changed")
        assert _new(pages.ranges(tmp_path / "now", NAME)) == PAGE


def test_a_missing_file_or_a_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / NAME).symlink_to("/etc/passwd")
    for name in (NAME, OTHER):
        with pytest.raises(OSError, match=r"passwd|pages"):
            EarlierPages(tmp_path, [name])


def test_a_sample_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pages under one number: only equal ones count."""
    monkeypatch.setattr(earlier_pages, "hash", lambda _page: 1, raising=False)
    before = _pages(100)
    _compared(tmp_path, {NAME: before}, _pages(5, 3) + before)
