"""Decides what becomes of each internet socket of a snapshot in a container with another address.

Pure over the decoded `files.img`. A connection survives when both of its ends are in the snapshot:
loopback, or the container talking to its own address. So does an end whose other end was closed before
the capture, with what is still to be read. Any other belongs to the parent, which still uses it; the
copy is restored as a closed socket, so that the program reads end-of-file and cannot write. Nothing is
sent: a reset from here would carry the parent's address and ports.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Linux include/net/tcp_states.h
_TCP_SYN_SENT = 2
_TCP_CLOSE = 7
# The other end has said all it had to say.
_ENDED = (_TCP_CLOSE, 8, 9)  # CLOSE, CLOSE_WAIT, LAST_ACK
# FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING
_HALF_CLOSED = frozenset((4, 5, 8, 9, 11))
_SHUT_BOTH = 3  # SK_SHUTDOWN__BOTH of CRIU's sk-opts.proto


@dataclass(slots=True)
class SocketCounts:
    """How many sockets were kept, moved to the new address, or closed."""

    kept: int = 0
    moved: int = 0
    closed: int = 0


def half_closed(entries: Iterable[Any]) -> bool:
    """Check whether any of a snapshot's file entries is a connection that one end has closed."""
    return any(entry.HasField("isk") and entry.isk.state in _HALF_CLOSED for entry in entries)


def adapt(entries: list[Any], old: tuple[str, ...], new: tuple[str, ...]) -> SocketCounts:
    """Edit the file entries of a snapshot in place. Addresses are textual, IPv4 or IPv6."""
    moves = _moves(old, new)
    sockets = [entry.isk for entry in entries if entry.HasField("isk")]
    ends = {
        (_plain(text_of(s.src_addr)), s.src_port, _plain(text_of(s.dst_addr)), s.dst_port)
        for s in sockets
        if s.dst_port
    }
    outcome = SocketCounts()
    for entry in sockets:
        source, target = text_of(entry.src_addr), text_of(entry.dst_addr)
        if entry.proto == socket.IPPROTO_TCP and entry.dst_port:
            mirrored = (_plain(target), entry.dst_port, _plain(source), entry.src_port) in ends
            if not mirrored and not _left_by_a_peer_inside(entry, target, moves):
                _close(entry)
                outcome.closed += 1
                continue
        moved = _move(entry.src_addr, moves)
        if entry.dst_port:
            moved = _move(entry.dst_addr, moves) or moved
        if moved:
            outcome.moved += 1
        else:
            outcome.kept += 1
    return outcome


def _left_by_a_peer_inside(entry: Any, target: str, moves: dict[str, str | None]) -> bool:
    """Check that the other end has sent everything, and no packet to it would leave the session."""
    return entry.state in _ENDED and (target in moves or _is_loopback(target))


def _is_loopback(text: str) -> bool:
    return bool(text) and ipaddress.ip_address(_plain(text)).is_loopback


def _plain(text: str) -> str:
    """Return an IPv4 address as an IPv4 socket has it, even if it is mapped (RFC 4291, 2.5.5.2)."""
    if not text:
        return text
    parsed = ipaddress.ip_address(text)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def _close(entry: Any) -> None:
    # A program that still waits for its connection asks the kernel again, and gets one of its own.
    shutdown = 0 if entry.state == _TCP_SYN_SENT else _SHUT_BOTH
    entry.state = _TCP_CLOSE
    entry.src_port = 0
    entry.dst_port = 0
    entry.shutdown = shutdown


def _move(words: Any, moves: dict[str, str | None]) -> bool:
    text = text_of(words)
    if text not in moves:
        return False
    replacement = moves[text]
    words[:] = _words(replacement) if replacement else [0] * len(words)
    return True


def _moves(old: tuple[str, ...], new: tuple[str, ...]) -> dict[str, str | None]:
    """Old address to the new one of its family; to None (any address) where there is none."""
    by_version = {ipaddress.ip_address(address).version: address for address in new}
    moves: dict[str, str | None] = {}
    for address in old:
        parsed = ipaddress.ip_address(address)
        moves[str(parsed)] = by_version.get(parsed.version)
        if parsed.version == 4:
            # The same host seen through an IPv6 socket.
            replacement = by_version.get(4)
            moves[str(ipaddress.ip_address(f"::ffff:{address}"))] = (
                f"::ffff:{replacement}" if replacement else None
            )
    return moves


def text_of(words: Any) -> str:
    """Format an address; CRIU keeps it as one or four 32-bit words in network byte order.

    Empty for any other number of words.
    """
    packed = b"".join(int(word).to_bytes(4, "little") for word in words)
    return str(ipaddress.ip_address(packed)) if len(packed) in (4, 16) else ""


def _words(address: str) -> list[int]:
    packed = ipaddress.ip_address(address).packed
    return [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]
