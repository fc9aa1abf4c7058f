"""The parsers of the kernel's answers about sockets, byte by byte."""

from __future__ import annotations

import socket
import struct

import pytest

from holdfast.procfs import sock_diag


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
        + struct.pack("=IIIII", 0, 5, 7, 1000, inode)
    )


def unix(state: int, inode: int, *attributes: bytes) -> bytes:
    return struct.pack("=BBBxIII", 1, 1, state, inode, 0, 0) + b"".join(attributes)


def test_a_connection_is_read() -> None:
    """Addresses, state, queues and inode."""
    found = sock_diag.internet(internet(socket.AF_INET, 1, "127.0.0.1", "10.0.0.1", (80, 4000), 42), "tcp")

    assert found is not None
    assert (found.local, found.local_port, found.remote, found.remote_port) == (
        "127.0.0.1",
        80,
        "10.0.0.1",
        4000,
    )
    assert (found.protocol, found.state, found.uid, found.inode) == ("tcp", "established", 1000, 42)
    assert (found.receive_queue, found.send_queue) == (5, 7)


def test_both_ends_of_a_connection_between_families_look_alike() -> None:
    """A server of IPv6 that is reached by IPv4."""
    four = sock_diag.internet(internet(socket.AF_INET, 1, "127.0.0.1", "127.0.0.1", (4000, 80), 1), "tcp")
    six = sock_diag.internet(
        internet(socket.AF_INET6, 1, "::ffff:127.0.0.1", "::ffff:127.0.0.1", (80, 4000), 2), "tcp"
    )

    assert four is not None
    assert six is not None
    assert (four.local_end, four.remote_end) == (six.remote_end, six.local_end)
    assert (four.protocol, six.protocol) == ("tcp", "tcp6")


def test_a_listener_has_no_remote_end() -> None:
    """A port of 0 means none; the backlog's limit is not reported as data to send."""
    found = sock_diag.internet(internet(socket.AF_INET6, 10, "::", "::", (80, 0), 3), "tcp")

    assert found is not None
    assert (found.state, found.local_end, found.remote_end) == ("listening", "[::]:80", "")
    assert (found.receive_queue, found.send_queue) == (5, 0)


def test_a_unix_socket_is_read() -> None:
    """Name, other end, connections not accepted, queues, and whether it is shut down."""
    plain = sock_diag.unix(unix(1, 5, attribute(0, b"/run/s\0"), attribute(2, struct.pack("=I", 6))))
    listener = sock_diag.unix(
        unix(10, 7, attribute(0, b"\0abstract"), attribute(3, struct.pack("=II", 8, 0)))
    )
    closed = sock_diag.unix(unix(1, 9, attribute(4, struct.pack("=II", 1, 2)), attribute(6, b"\3")))

    assert plain is not None
    assert (plain.protocol, plain.local, plain.peer, plain.closed) == ("unix stream", "/run/s", 6, False)
    assert listener is not None
    assert (listener.state, listener.local, listener.waiting) == ("listening", "@abstract", (8, 0))
    assert closed is not None
    assert (closed.receive_queue, closed.send_queue, closed.closed, closed.peer) == (1, 2, True, 0)


def test_broken_answers_are_left_out() -> None:
    """Cut off anywhere, nothing is an error."""
    body = unix(1, 5, attribute(0, b"/run/s\0"))
    message = struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body

    assert list(sock_diag.messages(struct.pack("=IHHII", 3, 0, 0, 0, 0))) == []
    assert [kind for kind, _ in sock_diag.messages(message + b"\1\0\0\0")] == [20]
    assert sock_diag.unix(body[:10]) is None
    assert sock_diag.internet(b"", "tcp") is None
    assert sock_diag.unix(unix(1, 5, b"\1\0\0\0")) is not None


def test_the_kernel_lists_this_process() -> None:
    """A listener among the sockets of TCP, and of every protocol, with the pair that is connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as server, sock_diag.opened(1.0) as link:
        end = f"127.0.0.1:{server.getsockname()[1]}"
        listening = [one for one in sock_diag.tcp(link, 1 << 10) if one.local_end == end]
        with socket.create_connection(server.getsockname()):
            found = [one for one in sock_diag.every(link) if end in (one.local_end, one.remote_end)]

    assert [(one.state, one.inode > 0) for one in listening] == [("listening", True)]
    assert sorted(one.state for one in found) == ["established", "established", "listening"]


def test_a_refusal_does_not_disturb_the_next_request() -> None:
    """Sockets that the kernel cannot list are left out, and the rest is requested."""
    with sock_diag.opened(1.0) as link:
        with pytest.raises(sock_diag.KernelRefused):
            list(sock_diag.dump(link, 20, bytes([255]) + bytes(55)))
        assert any(one.protocol.startswith("unix") for one in sock_diag.every(link))
