"""Which snapshots have connections that are brought back by packets."""

from __future__ import annotations

import pytest
from tests.snapshots.test_sockets import CLOSE_WAIT, ESTABLISHED, LISTEN, Entry, Isk, words

from holdfast.snapshots.checkpointer.resets import half_closed

FIN_WAIT2 = 5


def entry(state: int) -> Entry:
    return Entry(Isk(words("127.0.0.1"), 80, state=state))


@pytest.mark.parametrize("state", [CLOSE_WAIT, FIN_WAIT2])
def test_half_closed_connections_are(state: int) -> None:
    assert half_closed([entry(ESTABLISHED), Entry(), entry(state)])


def test_listeners_and_whole_connections_are_not() -> None:
    assert not half_closed([entry(ESTABLISHED), entry(LISTEN), Entry()])
