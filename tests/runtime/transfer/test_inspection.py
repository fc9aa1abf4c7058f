"""Of a snapshot that an earlier one was compared with, only new memory is searched, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.scrubbing.samples import SECRETS
from tests.runtime.transfer.test_unpack_parts import _config

from holdfast.base.home import Home
from holdfast.runtime.transfer.inspection import Inspection
from holdfast.snapshots.bundle.earlier_pages import PageRange

PAGE = 4096
NAME = "images/pages-1.img"
OTHER = "images/pages-2.img"
TOKEN = SECRETS["github token"][0].encode()


def _page(text: bytes = b"") -> bytes:
    return (b"." * 100 + text).ljust(PAGE, b".")


def _inspection(tmp_path: Path, files: dict[str, bytes], secrets: str = "warn") -> Inspection:
    home = Home(tmp_path / "home").create()
    (tmp_path / "images").mkdir(exist_ok=True)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    kept = _config({name: len(data) for name, data in files.items()}).snapshot
    return Inspection(home, kept, secrets, {})


def _rules(inspection: Inspection) -> list[tuple[str, int]]:
    return [(one.rule, one.count) for one in inspection.found]


def test_earlier_findings_stay_and_new_ones_come(tmp_path: Path) -> None:
    """A secret in a page that did not change is not searched for again, and still reported, once."""
    data = _page(TOKEN) + 10 * _page()
    first = _inspection(tmp_path, {NAME: data})
    first.files(tmp_path, None)
    assert _rules(first) == [("github token", 1)]

    again = _inspection(tmp_path, {NAME: data, OTHER: _page(SECRETS["gitlab token"][0].encode())})
    again.files(tmp_path, None, first.searched, {NAME: [PageRange(11 * PAGE, NAME)]})

    assert _rules(again) == [("github token", 1), ("gitlab token", 1)]


@pytest.mark.parametrize("new", [0, 5, 10])
def test_a_secret_in_new_memory_refuses(tmp_path: Path, new: int) -> None:
    pages = [_page() for _ in range(11)]
    first = _inspection(tmp_path, {NAME: b"".join(pages)}, "refuse")
    first.files(tmp_path, None)
    assert first.found == ()
    pages[new] = _page(TOKEN)
    ranges = [
        each
        for each in (
            PageRange(new * PAGE, NAME),
            PageRange(PAGE),
            PageRange((10 - new) * PAGE, NAME, (new + 1) * PAGE),
        )
        if each.size
    ]
    again = _inspection(tmp_path, {NAME: b"".join(pages)}, "refuse")
    again.files(tmp_path, None, first.searched, {NAME: ranges})
    assert _rules(again) == [("github token", 1)]


def test_other_rules_search_all_again(tmp_path: Path) -> None:
    """Rules of an earlier search that was not made, or found less, do not count."""
    data = {NAME: _page(TOKEN) + _page(b"made-by-hand-4711")}
    first = _inspection(tmp_path, data, "ignore")
    first.files(tmp_path, None)
    again = _inspection(tmp_path, data)
    again.files(tmp_path, None, first.searched, {NAME: [PageRange(2 * PAGE, NAME)]})
    assert _rules(again) == [("github token", 1)]
    rules = tmp_path / "home" / "scrub.json"
    rules.write_text('{"patterns": [{"name": "mine", "regex": "made-by-hand-[0-9]+"}]}')
    rules.chmod(0o600)
    other = _inspection(tmp_path, data)
    other.files(tmp_path, None, again.searched, {NAME: [PageRange(2 * PAGE, NAME)]})
    assert ("mine", 1) in _rules(other)
