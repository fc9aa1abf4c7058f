"""Greetings of TLS clients, made byte by byte, as no library makes them; and OpenSSL's here."""

from __future__ import annotations

import ssl
from contextlib import suppress

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
CHANGE = b"\x14\x03\x03\x00\x01\x01"


def block(size: int, content: bytes) -> bytes:
    return len(content).to_bytes(size, "big") + content


def extension(kind: int, content: bytes = b"") -> bytes:
    return kind.to_bytes(2, "big") + block(2, content)


def names(*given: bytes, kind: int = 0) -> bytes:
    return extension(0, block(2, b"".join(bytes([kind]) + block(2, name) for name in given)))


def hello(
    extensions: bytes | None,
    *,
    version: bytes = b"\x03\x03",
    session: bytes = b"s" * 32,
    ciphers: bytes = b"\x13\x01\x13\x02\xc0\x2f",
    compressions: bytes = b"\x00",
    after: bytes = b"",
) -> bytes:
    """Return a ClientHello as a handshake message."""
    content = version + b"r" * 32 + block(1, session) + block(2, ciphers) + block(1, compressions)
    content += (b"" if extensions is None else block(2, extensions)) + after
    return b"\x01" + block(3, content)


def records(message: bytes, *sizes: int, kind: int = 0x16, version: bytes = b"\x03\x01") -> bytes:
    """Return it in records of these sizes, and the rest in one more."""
    found = b""
    for size in (*sizes, len(message)):
        piece, message = message[:size], message[size:]
        if piece:
            found += bytes([kind]) + version + block(2, piece)
    return found


def openssl(name: str | None, least: ssl.TLSVersion, most: ssl.TLSVersion) -> bytes:
    """Return the greeting of OpenSSL as it is in this Python."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version, context.maximum_version = least, most
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(coming, going, server_hostname=name).do_handshake()
    return going.read()
