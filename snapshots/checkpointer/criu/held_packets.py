"""Packets that are held back in a session's network namespace while CRIU works on its connections.

CRIU handles one connection after the other, and the kernel keeps working during that, although no program
runs: data on its way arrives, and is acknowledged. Packets are held back by dropping them; the kernel sends
them again.

  CONNECTIONS  in a capture: TCP between programs of the session. Otherwise bytes could arrive at an end
that was read already, from one that was not yet, and would be in neither image. EARLY        in a restore,
until CRIU has filled the queues of all connections: the same, without CRIU's own packets. A complete end
sends its unsent and unacknowledged data. The other end can have that in the queue it will get: it would
have the same bytes twice, and acknowledge more than was sent. RESETS       in a restore, until programs
run. The end of a half-closed connection is a packet of CRIU's own. The other end can be missing; the answer
to such a packet is a reset, which ends the connection. Connections are not tracked during this: tracking
drops one of two packets that begin the same connection on two processors, and CRIU fails if its packet is
refused.

The session does not run during this, so no program misses a held packet.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from enum import Enum
from typing import NoReturn, Self

from holdfast.snapshots.checkpointer.ground import separate_process

_HOLD, _LET_GO = b"h", b"g"
_MOST = 64
"""Bytes of a question: one of these, and the name of a kind."""


class PacketKind(Enum):
    """Kinds of packets; the value is the table's name and its chains: hook, priority, rule.

    The chains come before the rules for a session's destinations, which have priority 0; tracking has -200
    (netfilter_ipv4.h). Interface 1 is loopback in every network namespace, and packets of a session to its
    own addresses also go there. The mark is CRIU's own (SOCCR_MARK in its soccr.h).
    """

    CONNECTIONS = ("holdfast_connections", (("input", -10, "meta iif 1 meta l4proto tcp drop"),))
    EARLY = ("holdfast_early", (("input", -10, "meta iif 1 meta l4proto tcp meta mark != 0xc114 drop"),))
    RESETS = (
        "holdfast_resets",
        (("output", -10, "tcp flags & rst == rst drop"), ("output", -300, "meta oif 1 notrack")),
    )


class Holding:
    """A process in the network namespace of a session that holds packets back on request.

    It releases them when it is closed, and when the process that made it has ended.
    """

    def __init__(self, init_pid: int) -> None:
        """Make the process. Raises OSError."""
        network = os.open(f"/proc/{init_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._pid = os.fork()
            if self._pid == 0:
                self._socket.close()
                _serve(theirs, network)
            theirs.close()
        finally:
            os.close(network)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hold(self, kind: PacketKind) -> None:
        """Block such packets. Raises OSError."""
        self._ask(_HOLD, kind)

    def let_go(self, kind: PacketKind) -> None:
        """Undo `hold`, even of another process, if it was done. Raises OSError."""
        self._ask(_LET_GO, kind)

    def close(self) -> None:
        """Release the packets and end the process, if it has not ended. Raises OSError if they are still
        held."""
        if self._socket.fileno() < 0:
            return
        self._socket.close()
        _, status = os.waitpid(self._pid, 0)
        if status:
            raise OSError("held packets of connections cannot be released (nftables)")

    def _ask(self, what: bytes, kind: PacketKind) -> None:
        with suppress(ConnectionError):
            self._socket.sendall(what + kind.name.encode())
            if self._socket.recv(1) == what:
                return
        raise OSError("packets of connections cannot be held back (nftables)")


def _serve(asked: socket.socket, network: int) -> NoReturn:
    held: set[PacketKind] = set()
    try:
        import nftables

        separate_process.enter_namespace(network, separate_process.NEWNET)
        separate_process.keep_capabilities(separate_process.NET_ADMIN)
        nft = nftables.Nftables()
        while question := asked.recv(_MOST):
            what, kind = question[:1], PacketKind[question[1:].decode()]
            if nft.cmd(_texts(*kind.value)[what])[0] != 0:
                break
            (held.add if what == _HOLD else held.discard)(kind)
            asked.sendall(what)
        held = {kind for kind in held if nft.cmd(_texts(*kind.value)[_LET_GO])[0] != 0}
    finally:
        os._exit(bool(held))


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
