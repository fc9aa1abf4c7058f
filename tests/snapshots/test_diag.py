"""What the kernel's answers about sockets say, byte by byte."""

from __future__ import annotations

import socket
import struct

from holdfast.snapshots.checkpointer.survey import diag


def attribute(kind: int, data: bytes) -> bytes:
    text = struct.pack("=HH", len(data) + 4, kind) + data
    return text + bytes(-len(text) % 4)


def internet(family: int, state: int, local: str, remote: str, ports: tuple[int, int], inode: int) -> bytes:
    packed = [socket.inet_pton(family, address).ljust(16, b"\0") for address in (local, remote)]
    return (
        struct.pack("=BBxx", family, state)
        + b"".join(port.to_bytes(2) for port in ports)
        + b"".join(packed)
        + bytes(12)
        + struct.pack("=IIIII", 0, 5, 7, 0, inode)
    )


def unix(state: int, inode: int, *attributes: bytes) -> bytes:
    return struct.pack("=BBBxIII", 1, 1, state, inode, 0, 0) + b"".join(attributes)


def test_a_connection_is_read() -> None:
    """Addresses, state, queues and inode."""
    found = diag.internet(internet(socket.AF_INET, 1, "127.0.0.1", "10.0.0.1", (80, 4000), 42), "tcp")

    assert found is not None
    assert (found.local, found.remote, found.state) == ("127.0.0.1:80", "10.0.0.1:4000", "established")
    assert (found.received, found.sent, found.inode) == (5, 7, 42)


def test_both_ends_of_a_connection_between_families_look_alike() -> None:
    """A server of IPv6 that is reached by IPv4."""
    four = diag.internet(internet(socket.AF_INET, 1, "127.0.0.1", "127.0.0.1", (4000, 80), 1), "tcp")
    six = diag.internet(
        internet(socket.AF_INET6, 1, "::ffff:127.0.0.1", "::ffff:127.0.0.1", (80, 4000), 2), "tcp6"
    )

    assert four is not None
    assert six is not None
    assert (four.local, four.remote) == (six.remote, six.local)


def test_a_listener_has_no_remote_end() -> None:
    """A port of 0 is none."""
    found = diag.internet(internet(socket.AF_INET6, 10, "::", "::", (80, 0), 3), "tcp6")

    assert found is not None
    assert (found.state, found.local, found.remote) == ("listening", "[::]:80", "")


def test_a_unix_socket_is_read() -> None:
    """Name, other end, connections not accepted, queues, and whether it is shut down."""
    plain = diag.unix(unix(1, 5, attribute(0, b"/run/s\0"), attribute(2, struct.pack("=I", 6))))
    listener = diag.unix(unix(10, 7, attribute(0, b"\0abstract"), attribute(3, struct.pack("=II", 8, 0))))
    closed = diag.unix(unix(1, 9, attribute(4, struct.pack("=II", 1, 2)), attribute(6, b"\3")))

    assert plain is not None
    assert (plain.protocol, plain.local, plain.peer, plain.closed) == ("unix stream", "/run/s", 6, False)
    assert listener is not None
    assert (listener.state, listener.local, listener.waiting) == ("listening", "@abstract", (8, 0))
    assert closed is not None
    assert (closed.received, closed.sent, closed.closed, closed.peer) == (1, 2, True, 0)


def test_broken_answers_are_left_out() -> None:
    """Cut off anywhere, nothing is an error."""
    body = unix(1, 5, attribute(0, b"/run/s\0"))
    message = struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body

    assert [kind for kind, _ in diag.messages(message + b"\1\0\0\0")] == [20]
    assert diag.unix(body[:10]) is None
    assert diag.internet(b"", "tcp") is None
    assert diag.unix(unix(1, 5, b"\1\0\0\0")) is not None
