"""The parsers of the socket tables in /proc/net, on texts as the kernel writes them."""

from __future__ import annotations

import pytest

from holdfast.procfs import socket_tables
from holdfast.procfs.socket_tables import SocketRow

TCP = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000002 00:00000000 00000000  1000        0 41 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 0000000A:00000005 00:00000000 00000000     0        0 42 1 0 20 4 30 10
   2: broken
   3: 0100007F:1F90 0100007F:C350 xx 0000000A:00000005 00:00000000 00000000     0        0 42 1 0 20 4 30 10
"""
TCP6 = b"""\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 51 1
   1: 0000000000000000FFFF00000100007F:0051 0000000000000000FFFF00000100007F:0052 06 0:0 0:0 0 0 0 0 1
   2: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 77 1
"""
UNIX = b"""\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 100 /run/with blank.sock
0000000000000000: 00000003 00000000 00000000 0001 03 101
0000000000000000: 00000002 00000000 00000000 0002 01 102 @hidden
0000000000000000: 00000002 00000000 x 0002 01 103 broken
"""


def test_sockets_of_the_internet() -> None:
    """Addresses are in host order, queues are hexadecimal, and a broken line is passed over."""
    assert list(socket_tables.internet(TCP, "tcp")) == [
        SocketRow("tcp", "listening", "127.0.0.1", 8080, "0.0.0.0", 0, 0, 2, 1000, 41),
        SocketRow("tcp", "established", "127.0.0.1", 8080, "127.0.0.1", 50000, 10, 5, 0, 42),
    ]


def test_sockets_of_version_six() -> None:
    """The wildcard is ::, and the end of a mapped address is its version 4 address."""
    first, second, third = socket_tables.internet(TCP6, "tcp6")

    assert (first.local, first.local_port, first.local_end, first.remote_end) == ("::", 80, "[::]:80", "")
    assert (second.state, second.local_end, second.remote_end) == (
        "time_wait",
        "127.0.0.1:81",
        "127.0.0.1:82",
    )
    assert second.local.startswith("::ffff:")
    assert (third.state, third.local, third.local_port, third.inode) == ("listening", "::1", 22, 77)


def test_unix_sockets() -> None:
    """Listening ones are known by their flag, a path can contain blanks, and some have no name."""
    assert list(socket_tables.unix(UNIX)) == [
        SocketRow("unix stream", "listening", "/run/with blank.sock", inode=100),
        SocketRow("unix stream", "connected", inode=101),
        SocketRow("unix datagram", "unconnected", "@hidden", inode=102),
    ]


@pytest.mark.parametrize(
    ("protocol", "number", "state"),
    [("tcp6", 4, "fin_wait1"), ("tcp", 99, "unknown"), ("udp", 1, "connected"), ("udplite", 7, "bound")],
)
def test_states(protocol: str, number: int, state: str) -> None:
    """A UDP socket is connected or not; of TCP each number has a name."""
    assert socket_tables.state(protocol, number) == state
