"""Packets that are held back in a session's network namespace while CRIU works on its connections.

CRIU handles one connection after the other, and the kernel keeps working meanwhile, although no program runs:
data on its way arrives, and is acknowledged. Packets are held back by dropping them; the kernel sends them
again.

  CONNECTIONS  in a capture: TCP between programs of the session. Otherwise bytes could arrive at an end that
  was read already, from one that was not yet, and would be in neither image.
  RESETS       in a restore. Data that a program had written but the kernel had not sent is really sent, and
  so is the end of a half-closed connection, as a packet of CRIU's own. The other end may not exist yet; the
  answer to such a packet is a reset, which ends the connection. Connections are not tracked meanwhile:
  tracking drops one of two packets that begin the same connection on two processors, and CRIU fails if its
  packet is refused.

Nothing of the session runs meanwhile, so no program misses what is held.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from enum import Enum
from typing import NoReturn, Self

from holdfast.snapshots.checkpointer import namespaces, rights

_HOLD, _LET_GO = b"h", b"g"


class PacketKind(Enum):
    """Kinds of packets; the value is the table's name and its chains: hook, priority, rule.

    The chains come before the rules for a session's destinations, which have priority 0; tracking has -200
    (netfilter_ipv4.h). Interface 1 is loopback in every network namespace, and packets of a session to its
    own addresses also go there.
    """

    CONNECTIONS = ("holdfast_connections", (("input", -10, "meta iif 1 meta l4proto tcp drop"),))
    RESETS = (
        "holdfast_resets",
        (("output", -10, "tcp flags & rst == rst drop"), ("output", -300, "meta oif 1 notrack")),
    )


class Holding:
    """A process in the network namespace of a session that holds packets back on request.

    It releases them when it is closed, and when the process that made it is gone.
    """

    def __init__(self, init_pid: int, held: PacketKind) -> None:
        """Make it. Raises OSError."""
        network = os.open(f"/proc/{init_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._socket, theirs = socket.socketpair()
            self._pid = os.fork()
            if self._pid == 0:
                self._socket.close()
                _serve(theirs, network, held)
            theirs.close()
        finally:
            os.close(network)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hold(self) -> None:
        """Let no such packet pass. Raises OSError."""
        self._ask(_HOLD)

    def let_go(self) -> None:
        """Undo `hold`, also that of another, if it was done. Raises OSError."""
        self._ask(_LET_GO)

    def close(self) -> None:
        """Let them go and end the process, if it has not ended. Raises OSError if they are held still."""
        if self._socket.fileno() < 0:
            return
        self._socket.close()
        _, status = os.waitpid(self._pid, 0)
        if status:
            raise OSError("packets of connections cannot be let go (nftables)")

    def _ask(self, what: bytes) -> None:
        with suppress(ConnectionError):
            self._socket.sendall(what)
            if self._socket.recv(1) == what:
                return
        raise OSError("packets of connections cannot be held back (nftables)")


def _serve(asked: socket.socket, network: int, held: PacketKind) -> NoReturn:
    left = False
    try:
        import nftables

        namespaces.enter(network, namespaces.NEWNET)
        rights.keep_only(rights.NET_ADMIN)
        nft = nftables.Nftables()
        texts = _texts(*held.value)
        while what := asked.recv(1):
            if nft.cmd(texts[what])[0] != 0:
                break
            left = what == _HOLD
            asked.sendall(what)
        if left:
            left = nft.cmd(texts[_LET_GO])[0] != 0
    finally:
        os._exit(left)


def _texts(table: str, chains: tuple[tuple[str, int, str], ...]) -> dict[bytes, str]:
    """Return the text for nft(8)."""
    hold = [f"add table inet {table}"]
    for number, (hook, priority, rule) in enumerate(chains):
        chain = f"inet {table} chain{number}"
        hold.append(f"add chain {chain} {{ type filter hook {hook} priority {priority}; policy accept; }}")
        hold.append(f"add rule {chain} {rule}")
    return {
        _HOLD: "\n".join(hold),
        # To delete what is not there would be an error.
        _LET_GO: f"add table inet {table}\ndelete table inet {table}",
    }
