"""The table of `docs/images.md` agrees with the results file, and nothing in it is red without a reason."""

from __future__ import annotations

import pytest
from tests.integration import image_table
from tests.integration.image_table import CAPABILITIES, IMAGES

GOOD = dict.fromkeys(CAPABILITIES, "ok")


def test_the_documentation_is_that_of_the_results() -> None:
    """The table is written from the results, and by no one else."""
    text = image_table.PAGE.read_text(encoding="utf-8")
    assert text == image_table.of(text, image_table.load())


def test_every_recorded_image_is_declared_and_was_tried_in_full() -> None:
    """In their order, with all capabilities."""
    rows = image_table.load()
    assert list(rows) == [name for name in IMAGES if name in rows]
    assert rows
    assert all(list(row) == list(CAPABILITIES) for row in rows.values())


def test_failures_have_their_reason_below_the_table() -> None:
    bad = {**GOOD, "cell": "it said | nothing"}
    del bad["export"]
    shown = image_table.table({"debian-13": GOOD, "busybox": bad})
    assert shown.splitlines()[2:] == [
        f"| Debian 13, minimal |{' ok |' * len(CAPABILITIES)}",
        "| busybox alone, static | ok | ok | **no** | ok | ok | ok | ok | ok | **no** | ok |",
        "",
        r"- busybox alone, static, cell: it said \| nothing",
        "- busybox alone, static, export: not run",
    ]
    assert image_table.red(bad) == ["cell: it said | nothing", "export: not run"]
    assert image_table.red(GOOD) == []


def test_a_page_without_marks_is_not_written() -> None:
    with pytest.raises(ValueError, match="lacks the marks"):
        image_table.of("text", {})
