"""Tests of finding receivers of data that closed sockets have queued."""

from __future__ import annotations

import os
import socket

import pytest

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.dump import drain_closed_sockets
from holdfast.snapshots.checkpointer.dump.drain_closed_sockets import ClosedReader


def row(state: str, port: int, peer: int, sending: int, waiting: int, inode: int) -> SocketRow:
    return SocketRow("tcp", state, "127.0.0.1", port, "127.0.0.1", peer, sending, waiting, 0, inode)


READER = row("established", 2, 1, 0, 100, 77)


def test_the_reader_of_an_end_without_descriptor_is_found() -> None:
    """With all that waits, here and there."""
    assert drain_closed_sockets.readers([row("fin_wait1", 1, 2, 900, 0, 0), READER]) == [
        ClosedReader(77, 1000)
    ]


def test_a_reader_of_another_family_is_found() -> None:
    """A client of IPv4 could have sent it to a server of IPv6, which sees its address in a form of its
    own."""
    reader = SocketRow("tcp6", "established", "::ffff:7f00:1", 2, "::ffff:7f00:1", 1, 0, 100, 0, 77)
    assert drain_closed_sockets.readers([row("fin_wait1", 1, 2, 900, 0, 0), reader]) == [
        ClosedReader(77, 1000)
    ]


@pytest.mark.parametrize(
    "other",
    [
        row("established", 1, 2, 900, 0, 5),
        row("fin_wait1", 1, 2, 900, 0, 5),
        row("fin_wait1", 1, 2, 1, 0, 0),
        row("fin_wait1", 1, 3, 900, 0, 0),
        row("fin_wait2", 1, 2, 0, 0, 0),
    ],
    ids=["open", "still open", "only its end", "of another", "all said"],
)
def test_others_are_left_alone(other: SocketRow) -> None:
    """A process with a descriptor is captured itself; the mere end of a stream takes no room."""
    assert drain_closed_sockets.readers([other, READER]) == []


def test_data_waiting_in_the_kernel_is_restored() -> None:
    """The reader asks for nothing in between, and reads every byte afterwards."""
    said = os.urandom(1_500_000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader = socket.create_connection(listener.getsockname())
        talker = listener.accept()[0]
    talker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(said) * 2)
    talker.settimeout(0)
    accepted = talker.send(said)
    talker.close()
    with reader:
        drain_closed_sockets.deliver(os.getpid())
        assert drain_closed_sockets.readers(drain_closed_sockets._table(os.getpid())) == []
        heard = b"".join(iter(lambda: reader.recv(1 << 16), b""))
    assert heard == said[:accepted]
    assert accepted > 1_000_000
