"""Pages that an earlier snapshot does not have are searched with their surroundings, and no others are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.errors import StoreError
from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import LONGEST, Matcher
from holdfast.runtime.scrubbing.secret_search import Search
from holdfast.runtime.transfer import searched_parts
from holdfast.snapshots.bundle.earlier_pages import PageRange

PAGE = 4096
TOKEN = SECRETS["github token"][0].encode()
WIDE = Matcher(RULES, wide=True)


def _found(path: Path, ranges: list[PageRange] | None) -> int:
    search = Search(WIDE)
    if ranges is None:
        searched_parts.search_file(path, search)
    else:
        searched_parts.search_new(path, search, ranges)
    return sum(search.found.values())


def _ranges(pages: int, *new: int) -> list[PageRange]:
    return [PageRange(PAGE, None if page in new else "x", page * PAGE) for page in range(pages)]


@pytest.mark.parametrize("at", [10 * PAGE - 20, 10 * PAGE, 11 * PAGE - 20, 10 * PAGE - len(TOKEN) + 1])
def test_a_secret_that_reaches_into_a_new_page_is_found_once(tmp_path: Path, at: int) -> None:
    """Begun in the previous page, within it, and ended in the next."""
    data = bytearray(b"." * (20 * PAGE))
    data[at : at + len(TOKEN)] = TOKEN
    (tmp_path / "x").write_bytes(data)
    assert _found(tmp_path / "x", _ranges(20, 10)) == 1
    assert _found(tmp_path / "x", _ranges(20, 10, 9, 11)) == 1


def test_searched_data_is_not_searched_again(tmp_path: Path) -> None:
    """Also where it is read as context."""
    data = bytearray(b"." * (40 * PAGE))
    for page in (0, 9, 11, 30):
        data[page * PAGE + 100 : page * PAGE + 100 + len(TOKEN)] = TOKEN
    (tmp_path / "x").write_bytes(data)
    assert _found(tmp_path / "x", _ranges(40, 10)) == 0
    assert _found(tmp_path / "x", _ranges(40)) == 0


@pytest.mark.parametrize("seed", range(10))
def test_new_parts_alone_give_the_findings_of_a_whole_search(tmp_path: Path, seed: int) -> None:
    """Wherever it is cut into blocks."""
    chance = random.Random(seed)
    data = bytearray(b"." * (3 << 20))
    for _ in range(50):
        at = chance.choice([1 << 20, 2 << 20, chance.randrange(len(data))]) - chance.randrange(100)
        data[at : at + len(TOKEN)] = TOKEN
    data = data[: 3 << 20]
    (tmp_path / "x").write_bytes(data)
    assert _found(tmp_path / "x", [PageRange(len(data))]) == _found(tmp_path / "x", None) > 0


def test_neighbouring_ranges_are_one_stretch() -> None:
    near, far = 2 * LONGEST // PAGE, 2 * LONGEST // PAGE + 1
    assert list(searched_parts.stretches(_ranges(30, 0, near + 1))) == [(0, (near + 2) * PAGE)]
    assert list(searched_parts.stretches(_ranges(30, 0, far + 1))) == [
        (0, PAGE),
        ((far + 1) * PAGE, (far + 2) * PAGE),
    ]
    assert list(searched_parts.stretches([])) == []


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read"):
        _found(tmp_path / "gone", [])
    with pytest.raises(StoreError, match="cannot read"):
        _found(tmp_path / "gone", None)
