"""Unix connections of which a capture has one end only."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from holdfast.snapshots import explain
from holdfast.snapshots.checkpointer.survey.unix_peers import without_peer


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
