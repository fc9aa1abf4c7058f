"""Entries of CRIU's images, as a copy needs them: sockets, terminals, memory files, files of the engine.

Pure over decoded messages.

Sockets: a connection survives when both of its ends are in the snapshot: loopback, or the container talking
to its own address. So does an end whose other end was closed before the capture, with its unread data. Any
other belongs to the parent, which still uses it; the copy is restored as a closed socket, so that the
program reads end-of-file and cannot write. Nothing is sent: a reset from here would carry the parent's
address and ports.

Accepted unix connections have the name of their listener, and no file of their own: CRIU binds none of them.
If the file is gone, and so is the peer, it waits for ever for that name to be bound (open_unixsk_standalone()
of criu/sk-unix.c, 4.3). So they are not marked as bound to a file that was removed.

Terminals: some are to be made before all processes; guard_terminals.c makes what is planned.

Memory files (memfd_create(2)) that are mapped shared and sealed against writing: CRIU opens what is mapped
as it was opened originally, maps it and applies seals at the end. But a shared mapping by a descriptor that
writes can be made writable later, so F_SEAL_WRITE is refused (EBUSY, fcntl(2)). As the file was sealed,
none of its mappings can have been writable: their descriptors only read. Mapped privately: CRIU 4.3 asks a
helper of its own to write the content of such files. If memory comes on demand, the request goes to the
server of that memory, and the restore fails. So then it does not come on demand.

Files that an engine makes for each container: a program can have one open. CRIU compares the length and
mode of every file that it opens again; for these that would be the captured container's name and address
against the copy's.
"""

from __future__ import annotations

import ipaddress
import mmap
import os
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.snapshots.checkpointer.record import text
from holdfast.snapshots.checkpointer.record.described import text_of
from holdfast.snapshots.checkpointer.survey.seen import ENGINE_FILES

# Linux include/net/tcp_states.h
_TCP_ESTABLISHED = 1
_TCP_SYN_SENT = 2
_TCP_CLOSE = 7
# The other end has said all it had to say.
_ENDED = (_TCP_CLOSE, 8, 9)  # CLOSE, CLOSE_WAIT, LAST_ACK
# FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING
_HALF_CLOSED = frozenset((4, 5, 8, 9, 11))
_SHUT_BOTH = 3  # SK_SHUTDOWN__BOTH of CRIU's sk-opts.proto
_F_SEAL_WRITE = 0x0008  # fcntl(2)
_MEMORY_FILE = 1 << 14  # VMA_AREA_MEMFD of CRIU


@dataclass(slots=True)
class SocketCounts:
    """The numbers of sockets that were kept, moved to the new address, or closed."""

    kept: int = 0
    moved: int = 0
    closed: int = 0


def half_closed(entries: Iterable[Any]) -> bool:
    """Check whether any of a snapshot's file entries is a connection that one end has closed."""
    return any(entry.HasField("isk") and entry.isk.state in _HALF_CLOSED for entry in entries)


def adapt_sockets(entries: list[Any], old: tuple[str, ...], new: tuple[str, ...]) -> SocketCounts:
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


def adapt_accepted(entries: Iterable[Any]) -> None:
    """Edit the file entries of unix connections in place: none waits for its name to be bound."""
    for entry in entries:
        if (
            entry.HasField("usk")
            and entry.usk.state == _TCP_ESTABLISHED
            and entry.usk.type != socket.SOCK_DGRAM
        ):
            entry.usk.deleted = False


def order_sockets(entries: list[Any]) -> None:
    """Put unix sockets without a peer first, in place.

    A connection that is not accepted yet has the listener as its peer, which does not know it. CRIU connects
    an entry to an earlier one, or to a later one that names it in return (try_resolve_unix_peer() in
    criu/sk-unix.c), so such a connection stays without one if its process comes before the listener's.
    """
    entries.sort(key=lambda entry: not (entry.HasField("usk") and not entry.usk.peer))


def _left_by_a_peer_inside(entry: Any, target: str, moves: dict[str, str | None]) -> bool:
    """Check that the other end has sent everything, and that its packets would stay in the session."""
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


def _words(address: str) -> list[int]:
    packed = ipaddress.ip_address(address).packed
    return [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]


def plan_terminals(files: list[Any], terminals: list[Any], processes: list[Any]) -> str:
    """Rename each master in `files` to the guard's name for it; return the guard's input.

    A session whose leader has ended has lost its terminal. Of the two ends of a terminal, the slave
    names the session only if CRIU found it in a process of that session.
    """
    leaders = {process.pid for process in processes if process.pid == process.sid}
    sessions = {entry.pty.index: entry.sid for entry in terminals if entry.HasField("pty") and entry.sid}
    masters = {entry.tty.regf_id: entry.tty.tty_info_id >> 1 for entry in files if _is_master(entry)}
    for entry in files:
        if entry.HasField("reg") and entry.id in masters:
            entry.reg.name = f"/dev/holdfast-ptmx-{masters[entry.id]}"
    entries = []
    for index in sorted(set(masters.values())):
        session = sessions.get(index, 0)
        entries.append(f"{index}:{session if session in leaders else 0}")
    return " ".join(entries)


def order_terminals(terminals: list[Any]) -> None:
    """Put masters before all slaves.

    CRIU joins the first two descriptors of a terminal in the order in which this describes their ends, and
    gives back what waits in it through these: if both are of the slave's end, it is lost.
    """
    terminals.sort(key=lambda entry: not entry.id % 2)


def lengthen_queues(queues: list[Any], beyond: dict[int, bytes]) -> None:
    """Append each terminal's data beyond CRIU's limit to CRIU's part, by CRIU's number of the end.

    Once for each end, however often images name it.
    """
    left = dict(beyond)
    for queue in queues:
        queue.data += left.pop(queue.tty_id, b"")


def _is_master(entry: Any) -> bool:
    # CRIU numbers the two ends of a terminal: twice its index, and one more for the master. So are their ids.
    return bool(entry.HasField("tty") and entry.tty.tty_info_id % 2)


def adapt_terminals(terminals: list[Any], processes: list[Any]) -> int:
    """Give terminals whose foreground process group has ended back to their session's leader.

    Between the end of a foreground job and the moment its shell takes the terminal back, the terminal
    names a group without members. It cannot be set again (ESRCH of TIOCSPGRP, ioctl_tty(2)), and the shell
    is about to take the terminal anyway. Returns how many were changed.
    """
    groups = {process.pgid for process in processes}
    changed = 0
    for terminal in terminals:
        if terminal.pgrp and terminal.sid and terminal.pgrp not in groups:
            terminal.pgrp = terminal.sid
            changed += 1
    return changed


def sealed_files(inodes: Iterable[Any], files: Iterable[Any]) -> set[int]:
    """Return the ids of files that are sealed against writing, according to `memfd.img` and `files.img`."""
    against = {inode.inode_id for inode in inodes if inode.seals & _F_SEAL_WRITE}
    return {file.id for file in files if file.HasField("memfd") and file.memfd.inode_id in against}


def map_read_only(memory: Any, sealed: Collection[int]) -> bool:
    """Map sealed files by a read-only descriptor; return whether there are any."""
    changed = False
    for area in memory.vmas:
        if area.status & _MEMORY_FILE and area.shmid in sealed and area.flags & mmap.MAP_SHARED:
            area.fdflags = os.O_RDONLY
            changed = True
    return changed


def mapped_privately(memory: Any) -> bool:
    """Check whether a process has a private mapping of such a file."""
    return any(area.status & _MEMORY_FILE and area.flags & mmap.MAP_PRIVATE for area in memory.vmas)


def let_engine_files_differ(entries: Iterable[Any]) -> None:
    """Edit file entries of a snapshot so that these are opened whatever they are in the copy."""
    for entry in entries:
        if entry.HasField("reg") and f"/{text(entry.reg.name).lstrip('/')}" in ENGINE_FILES:
            entry.reg.ClearField("size")
            entry.reg.ClearField("mode")
