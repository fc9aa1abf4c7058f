"""The fate of sockets in a capture. Pure."""

from __future__ import annotations

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.survey.seen import SeenDescriptor, World

# Names of protocols in the kernel, see /proc/net/protocols.
_UNLISTED = {
    "TCP": "connectionless",
    "TCPv6": "connectionless",
    "UDP": "connectionless",
    "UDPv6": "connectionless",
    "UDP-Lite": "connectionless",
    "UDPLITEv6": "connectionless",
    "PING": "connectionless",
    "PINGv6": "connectionless",
    "RAW": "connectionless",
    "RAWv6": "connectionless",
    "PACKET": "connectionless",
    "NETLINK": "netlink",
    "UNIX": "unix",
    "UNIX-STREAM": "unix",
}


def socket(world: World, one: SeenDescriptor) -> tuple[str, str]:
    """Return the kind of a socket, and its description."""
    found = world.network.sockets.get(one.link.inode)
    if one.link.inode in world.network.unread:
        return "netlink_unread", "netlink socket"
    # The kernel lists the TCP socket below a multipath one by the same inode number.
    if found is None or one.family.startswith("MPTCP"):
        return _UNLISTED.get(one.family, "socket_foreign" if one.family else "connectionless"), (
            f"{one.family or 'unknown'} socket"
        )
    if found.protocol.startswith("unix"):
        return _unix(world, found)
    if found.state == "listening":
        return "listener", f"{found.protocol} {found.local_end}, listening"
    if found.protocol.startswith("tcp") and found.remote_end:
        return _connection(world, found)
    return "connectionless", f"{found.protocol} {found.local_end}".strip()


def _connection(world: World, found: SocketRow) -> tuple[str, str]:
    what = f"{found.protocol} {found.local_end} -> {found.remote_end}"
    if (found.remote_end, found.local_end) not in world.network.ends:
        return "connection_outside", what
    if (found.remote_end, found.local_end) in world.network.unaccepted:
        return "connection_waiting", what
    return "loopback", what


def _unix(world: World, found: SocketRow) -> tuple[str, str]:
    what = f"{found.protocol} {found.local_end}".strip()
    if found.inode in world.network.astray:
        return "socket_renamed", what
    if found.state == "listening":
        return ("unix_waiting", what) if _closed_early(found) else ("listener", what)
    if found.peer:
        other = world.network.sockets.get(found.peer)
        # An accepted end belongs to the namespace of the one that connected, wherever it is held.
        known = other is not None and found.peer not in world.network.outside
        on_its_way = known and world.network.in_flight
        if found.peer in world.network.held or on_its_way:
            return "unix", what
        name = other.local_end if other is not None else ""
        return "unix_outside", f"{what} -> {name or 'outside'}"
    if found.protocol == "unix datagram" or found.state != "established":
        return ("unix_unread" if found.receive_queue and found.local_end else "unix"), what
    return _without_peer(world, found, what)


def _closed_early(found: SocketRow) -> bool:
    """Check for a connection that was closed before it was accepted: it no longer has an inode number."""
    return 0 in found.waiting


def _without_peer(world: World, found: SocketRow, what: str) -> tuple[str, str]:
    """Judge a connection whose other end has no inode: not accepted yet, closed, or in another namespace."""
    listener = next((one for one in world.network.listeners if found.inode in one.waiting), None)
    if listener is None:
        return ("unix_outside", f"{what} -> outside") if not found.closed else ("unix", what)
    if found.send_queue:
        return "unix_waiting", f"{what} -> {listener.local_end}"
    return "unix", what
