"""No connection of a copy is reset while CRIU brings them back, one after the other.

What a program had written but the kernel had not sent when the session was captured is sent for real, and
so is the end of a connection that was half-closed, as a packet of CRIU's own. The other end may not be there
yet; the answer to a packet for nobody is a reset, which ends the connection. So none leaves the session's
network namespace until all ends are there; what was lost, the kernel sends again by itself.

Nothing of the session runs meanwhile, so nothing misses a reset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from holdfast.snapshots.checkpointer import namespaces, rights

TABLE = "holdfast_resets"
# Before the rules for what a session reaches, which have priority 0.
HELD = f"""
table inet {TABLE} {{
    chain output {{
        type filter hook output priority -10; policy accept;
        tcp flags & rst == rst drop
    }}
}}
"""
LET_GO = f"delete table inet {TABLE}"
_HALF_CLOSED = frozenset((4, 5, 8, 9, 11))
"""FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING (Linux include/net/tcp_states.h)."""


def half_closed(files: Iterable[Any]) -> bool:
    """Whether any of the files of a snapshot is a connection that one end has closed."""
    return any(entry.HasField("isk") and entry.isk.state in _HALF_CLOSED for entry in files)


def hold(init_pid: int) -> None:
    """Let no reset out of the network namespace of this process. Raises OSError."""
    _nft(init_pid, HELD)


def let_go(init_pid: int) -> None:
    """Undo `hold`. Raises OSError."""
    _nft(init_pid, LET_GO)


def _nft(init_pid: int, text: str) -> None:
    """In a child: this process stays where it is, and keeps its capabilities."""
    network = os.open(f"/proc/{init_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            _set(network, text)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(network)
    if status != 0:
        raise OSError("resets of connections cannot be held back")


def _set(network: int, text: str) -> None:
    status = 1
    try:
        import nftables

        namespaces.enter(network, namespaces.NEWNET)
        rights.keep_only(rights.NET_ADMIN)
        status = int(nftables.Nftables().cmd(text)[0] != 0)
    finally:
        os._exit(status)
