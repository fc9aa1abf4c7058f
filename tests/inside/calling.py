"""Requests to the gateway that no honest program makes; defined in the kernel of a session by tests."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time

GATEWAY = ("192.0.2.1", 3128)


def exchange(raw: bytes) -> str:
    """Return the gateway's answer to these bytes, until it hangs up or is silent."""
    with socket.create_connection(GATEWAY, 20) as one:
        with contextlib.suppress(OSError):
            one.sendall(raw)
        return _read(one)


def connect(place: str) -> str:
    """Return the answer to CONNECT, without its headers' end."""
    return exchange(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())


def tunnel(place: str, name: str | None, raw: bytes) -> str:
    """Return the answer of a tunnel in which TLS is spoken to a name, whatever certificate it has."""
    with socket.create_connection(GATEWAY, 20) as one:
        one.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = one.recv(1)
            if not piece:
                return "closed"
            head += piece
        context = _any_certificate()
        try:
            with context.wrap_socket(one, server_hostname=name) as inner:
                inner.sendall(raw)
                return _read(inner)
        except OSError as error:
            return f"closed: {error}"


def negotiated(place: str, *offers: str) -> str | None:
    """Return which of these protocols is chosen for a tunnel in which TLS is spoken to its host."""
    name, _, port = place.rpartition(":")
    context = _any_certificate()
    context.set_alpn_protocols(offers)
    with socket.create_connection(GATEWAY, 20) as one:
        one.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        while not one.recv(4096).endswith(b"\r\n\r\n"):
            pass
        with context.wrap_socket(one, server_hostname=name) as inner:
            return inner.selected_alpn_protocol()


def through(place: str, *pieces: bytes) -> tuple[str, bytes]:
    """Return the status of a tunnel, and its output after these bytes; empty if it ends."""
    with socket.create_connection(GATEWAY, 20) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n") and (byte := one.recv(1)):
            head += byte
        one.settimeout(20)
        try:
            for piece in pieces:
                one.sendall(piece)
            return head.split()[1].decode(), one.recv(65536)
        except TimeoutError:
            return head.split()[1].decode(), b"silence"
        except OSError:
            return head.split()[1].decode(), b""


def kept(raw: bytes) -> tuple[socket.socket, bytes]:
    """Return an open connection to the gateway, and the head of the answer to its first request."""
    one = socket.create_connection(GATEWAY, 60)
    return one, again(one, raw)


def again(one: socket.socket, raw: bytes) -> bytes:
    """Return the head of the answer to one more request; its body is read."""
    one.sendall(raw)
    found = b""
    while b"\r\n\r\n" not in found and (piece := one.recv(65536)):
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    length = [
        line.partition(b":")[2] for line in head.lower().splitlines() if line.startswith(b"content-length")
    ]
    while length and len(body) < int(length[0]) and (piece := one.recv(65536)):
        body += piece
    return head + b"\r\n\r\n" + body


def received(one: socket.socket, size: int) -> bool:
    """Return whether that many bytes come."""
    one.settimeout(60)
    while size > 0 and (piece := one.recv(1 << 20)):
        size -= len(piece)
    return size <= 0


def pushed(raw: bytes, size: int) -> int:
    """Return how many bytes after these are taken, of that many, before nothing more is for three seconds."""
    with socket.create_connection(GATEWAY, 20) as one:
        one.sendall(raw)
        one.settimeout(3)
        left = size
        with contextlib.suppress(TimeoutError):
            while left > 0:
                left -= one.send(b"b" * min(left, 65536))
        return size - left


def filled(raw: bytes, count: int) -> list[socket.socket]:
    """Return that many calls that have sent only this; calls that the gateway ended have sent less."""
    calls = []
    for _ in range(count):
        one = socket.create_connection(GATEWAY, 60)
        with contextlib.suppress(OSError):
            one.sendall(raw)
        calls.append(one)
    return calls


def ended(calls: list[socket.socket], least: int) -> bool:
    """Check whether the gateway closes this many of these within half a minute."""
    deadline = time.monotonic() + 30
    while len(select.select(calls, [], [], 0)[0]) < least:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _read(one: socket.socket) -> str:
    one.settimeout(3)
    found = b""
    try:
        while piece := one.recv(65536):
            found += piece
    except OSError:
        pass
    return found.decode("utf-8", "replace")
