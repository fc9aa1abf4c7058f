"""Unix sockets: noted names can come from elsewhere; connections with one end only are found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.snapshots import explain
from holdfast.snapshots.checkpointer.record import ImagesUnreadable
from holdfast.snapshots.checkpointer.survey import unix_sockets
from holdfast.snapshots.checkpointer.survey.unix_sockets import without_peer


def test_names_of_sockets_are_read() -> None:
    """A capture without any notes nothing."""
    assert unix_sockets.checked_names(None) == {}
    noted = unix_sockets.checked_names({"17": ["/srv/a", "/srv/b"]})
    assert noted == {17: ["/srv/a", "/srv/b"]}
    assert list(unix_sockets.noted_paths(noted)) == ["/srv/a", "/srv/b"]


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
        {"1": ["/" + "a" * unix_sockets.MOST_TEXT]},
        {str(number): ["/a"] for number in range(unix_sockets.MOST + 1)},
    ],
)
def test_notes_that_no_capture_makes_are_refused(noted: Any) -> None:
    with pytest.raises(ImagesUnreadable):
        unix_sockets.checked_names(noted)


@dataclass
class Usk:
    """As much of CRIU's unix_sk_entry as is looked at."""

    ino: int
    peer: int = 0


@dataclass
class Entry:
    """As much of CRIU's file_entry as is looked at."""

    usk: Usk | None = field(default=None)

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's
        return name == "usk" and self.usk is not None


@pytest.mark.parametrize(
    ("sockets", "lonely"),
    [
        ([], 0),
        ([Usk(5), Usk(7, 5)], 0),  # a listener, and a connection that it has not accepted
        ([Usk(7, 9), Usk(9, 7)], 0),
        ([Usk(7, 7)], 0),  # connected to itself
        ([Usk(9), Usk(7, 5)], 7),
    ],
)
def test_a_socket_whose_other_end_is_not_there_is_found(sockets: list[Usk], lonely: int) -> None:
    assert without_peer([Entry(), *map(Entry, sockets)]) == lonely


def test_such_a_capture_is_tried_again() -> None:
    assert explain.explain(["Dangling connection 7"]).passing
