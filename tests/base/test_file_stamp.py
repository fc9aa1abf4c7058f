"""A stamp of a file differs after each change; where it could not, there is none."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.base.file_stamp import SETTLED_NS, WHOLE_SETTLED_NS, settled

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("ago", "whole", "has_one"),
    [
        pytest.param(0, False, False, id="now"),
        pytest.param(SETTLED_NS - 1, False, False, id="almost settled"),
        pytest.param(SETTLED_NS, False, True, id="settled"),
        pytest.param(WHOLE_SETTLED_NS - SECOND_NS, True, False, id="a file system of whole seconds"),
        pytest.param(WHOLE_SETTLED_NS, True, True, id="the same, later"),
        pytest.param(-SECOND_NS, False, False, id="a clock that was set back"),
    ],
)
def test_a_new_file_has_no_stamp(
    ago: int, whole: bool, has_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change could have the time of the first."""
    path = tmp_path / "file"
    path.write_text("content")
    changed = time.time_ns() // SECOND_NS * SECOND_NS + (0 if whole else 7)
    os.utime(path, ns=(changed, changed))
    monkeypatch.setattr(time, "time_ns", lambda: changed + ago)
    assert (settled(str(path)) is not None) == has_one


def test_a_stamp_differs_after_a_change(tmp_path: Path) -> None:
    """In content, length or place; and what does not exist has none."""
    path = tmp_path / "file"
    assert settled(str(path)) is None
    seen = []
    for number, text in enumerate(("one", "two", "three")):
        path.write_text(text)
        os.utime(path, ns=(number * SECOND_NS + 5, number * SECOND_NS + 5))
        seen.append(settled(str(path)))
    other = tmp_path / "other"
    other.write_text("three")
    os.utime(other, ns=(2 * SECOND_NS + 5, 2 * SECOND_NS + 5))
    other.replace(path)
    seen.append(settled(str(path)))
    assert len({*seen, None}) == 5
    assert settled(str(path)) == seen[-1]
