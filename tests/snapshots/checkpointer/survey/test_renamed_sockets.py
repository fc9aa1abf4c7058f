"""What a capture notes of sockets may come from another machine."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.snapshots.checkpointer.record import ImagesUnreadable
from holdfast.snapshots.checkpointer.survey import renamed_sockets


def test_names_of_sockets_are_read() -> None:
    """A capture without any notes nothing."""
    assert renamed_sockets.checked(None) == {}
    noted = renamed_sockets.checked({"17": ["/srv/a", "/srv/b"]})
    assert noted == {17: ["/srv/a", "/srv/b"]}
    assert list(renamed_sockets.paths(noted)) == ["/srv/a", "/srv/b"]


@pytest.mark.parametrize(
    "noted",
    [
        [],
        "x",
        {"x": ["/a"]},
        {"1": []},
        {"1": "/a"},
        {"1": ["a"]},
        {"1": ["/a\0b"]},
        {"1": [5]},
        {"1": ["/" + "a" * renamed_sockets.MOST_TEXT]},
        {str(number): ["/a"] for number in range(renamed_sockets.MOST + 1)},
    ],
)
def test_notes_that_no_capture_makes_are_refused(noted: Any) -> None:
    with pytest.raises(ImagesUnreadable):
        renamed_sockets.checked(noted)
