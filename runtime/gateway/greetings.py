"""The greeting of a tunnel's client to a host allowed by name alone: TLS that names this host. Pure.

A tunnel to a domain is not opened, so only its greetings tell its destination: behind a shared front end, a
host with any name can answer. Whatever does not name the host in a form that is understood here is refused.
A client can greet twice (RFC 8446, 4.1.4), after early data too, so its records are followed as long as the
tunnel lasts; once they are encrypted, no one sees their content.
"""

from __future__ import annotations

from holdfast.runtime.gateway.names import canonical

LONGEST = 32 << 10
"""Size limit of a greeting: with keys that resist quantum computers they have some two thousand bytes."""
_RECORD = (1 << 14) + 2048
"""Size limit of the content of a record (RFC 5246, 6.2.3)."""
_VERSIONS = ((3, 1), (3, 2), (3, 3))
_CHANGE, _ALERT, _HANDSHAKE, _DATA, _HEARTBEAT = range(20, 25)
_CLIENT_HELLO = 1
_NAME = 0
_HIDDEN = {0xFE0D: "an encrypted greeting", 0xFFCE: "an encrypted name"}
"""Extensions in which a second name is hidden (RFC 9849, and a draft of it)."""


class NotThisHost(Exception):
    """The client does not speak TLS to the host of its tunnel."""


class GreetingWatch:
    """Follows the data that the client of one tunnel sends.

    `feed` returns the part that can be passed on; before the first greeting is complete, that is empty.
    """

    def __init__(self, host: str) -> None:
        self.greeted = False
        self._host = host
        self._head = bytearray()
        self._left = 0
        """Bytes of the present record that are still to come."""
        self._kind = 0
        self._message = bytearray()
        """The present part of a handshake message, from its beginning."""
        self._skip = 0
        """Bytes of another handshake message than a greeting that are still to come."""
        self._opaque = False
        """Whether handshake messages can be encrypted: then records are looked at singly."""
        self._ignored = False
        """Whether the rest of the present record is encrypted, or of no interest."""
        self._held = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Return the data that the host can get, after these bytes of the client.

        Raises:
            NotThisHost: with the reason.
        """
        at = 0
        while at < len(data):
            if not self._left:
                taken = data[at : at + 5 - len(self._head)]
                self._head += taken
                at += len(taken)
                self._begin_record()
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            if self._kind == _HANDSHAKE:
                self._handshake(piece)
        if self.greeted and not self._message:
            passed, self._held = bytes(self._held) + data, bytearray()
            return passed
        self._held += data
        return b""

    def _begin_record(self) -> None:
        head = self._head
        if head[0] not in range(_CHANGE, _HEARTBEAT + 1) or (not self.greeted and head[0] != _HANDSHAKE):
            raise NotThisHost("it is not TLS")
        if len(head) < 5:
            return
        self._kind, self._left = head[0], int.from_bytes(head[3:5], "big")
        if tuple(head[1:3]) not in _VERSIONS:
            raise NotThisHost("its records have an unexpected version")
        if not 0 < self._left <= _RECORD:
            raise NotThisHost("a record has an impossible length")
        if self._message and self._kind != _HANDSHAKE:
            raise NotThisHost("a greeting is interrupted")
        self._opaque = self._opaque or self._kind == _CHANGE
        self._ignored = False
        self._head = bytearray()

    def _handshake(self, piece: bytes) -> None:
        """Continue in handshake messages, which begin and end anywhere in records."""
        if self._opaque:
            self._skip = 0
        while piece and not self._ignored:
            skipped = min(self._skip, len(piece))
            self._skip -= skipped
            self._message += piece[skipped:]
            piece = b""
            if self._opaque and not _begins_like_greeting(self._message):
                self._ignored, self._message = True, bytearray()
            if len(self._message) < 4:
                return
            kind, length = self._message[0], int.from_bytes(self._message[1:4], "big")
            if kind == _CLIENT_HELLO:
                self._greeting(length)
            elif self.greeted:
                piece, self._skip = bytes(self._message[4:]), length
                self._message = bytearray()
            else:
                raise NotThisHost("it does not begin with a greeting")

    def _greeting(self, length: int) -> None:
        if length > LONGEST:
            raise NotThisHost("its greeting is too long")
        if len(self._message) < 4 + length:
            return
        if len(self._message) > 4 + length or self._left:
            raise NotThisHost("something follows the greeting in its record")
        check(bytes(self._message[4:]), self._host)
        self._message = bytearray()
        self.greeted = True


def _begins_like_greeting(message: bytes | bytearray) -> bool:
    """Return whether it could be, or become, a ClientHello; encrypted data can by a rare chance."""
    expected = ((0, b"\x01"), (1, b"\x00"), (4, b"\x03"))
    return all(message[at : at + 1] in (b"", byte) for at, byte in expected) and message[5:6] in (
        b"",
        b"\x01",
        b"\x02",
        b"\x03",
    )


def check(hello: bytes, host: str) -> None:
    """Check that the content of a ClientHello names one host, and that this is the tunnel's.

    Raises:
        NotThisHost: with the reason.
    """
    try:
        found = _name(_Fields(hello))
    except EOFError as error:
        raise NotThisHost("its greeting is malformed") from error
    try:
        same = canonical(found.decode("ascii")) == host
    except ValueError:
        same = False
    if not same:
        raise NotThisHost("its greeting names a different host")


def _name(fields: _Fields) -> bytes:
    if tuple(fields.take(2)) not in _VERSIONS:
        raise NotThisHost("its greeting has an unexpected version")
    fields.take(32)
    session, ciphers, compressions = fields.block(1), fields.block(2), fields.block(1)
    if len(session) > 32 or not ciphers or len(ciphers) % 2 or 0 not in compressions:
        raise EOFError
    extensions: dict[int, bytes] = {}
    listed = _Fields(fields.block(2) if fields.left else b"")
    while listed.left:
        kind, content = int.from_bytes(listed.take(2), "big"), listed.block(2)
        if kind in extensions:
            raise NotThisHost("its greeting has something twice")
        if kind in _HIDDEN:
            raise NotThisHost(f"it has {_HIDDEN[kind]}, which hides its destination")
        extensions[kind] = content
    if fields.left:
        raise EOFError
    if _NAME not in extensions:
        raise NotThisHost("its greeting does not name a host")
    names = _Fields(_all_of(_Fields(extensions[_NAME])))
    if names.take(1) != bytes([_NAME]):
        raise NotThisHost("its greeting does not name a host")
    found = names.block(2)
    if names.left:
        raise NotThisHost("its greeting names several hosts")
    return found


def _all_of(fields: _Fields) -> bytes:
    """Return its only block."""
    content = fields.block(2)
    if fields.left:
        raise EOFError
    return content


class _Fields:
    """Reads from the front. Missing data raise EOFError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise EOFError
        self._at += count
        return self._data[self._at - count : self._at]

    def block(self, size: int) -> bytes:
        """Return a block that begins with its length in `size` bytes."""
        return self.take(int.from_bytes(self.take(size), "big"))
