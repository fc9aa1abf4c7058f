"""Traffic that can go through a tunnel to a host of a session of domains: TLS that names this host, and
nothing else.

Greetings are made here, byte by byte, and each is also given in pieces as TCP could cut it. Those of
OpenSSL are real.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from tests.tls_greetings import CHANGE, TLS12, TLS13, block, extension, names, openssl, records
from tests.tls_greetings import hello as any_hello

from holdfast.runtime.gateway.greetings import LONGEST, GreetingWatch, NotThisHost

HOST = "api.example.com"
OTHER = b"elsewhere.example"
GREASE = (0x0A0A, 0x1A1A, 0xFAFA)
DATA = b"\x17\x03\x03\x00\x20" + b"e" * 32
ALERT = b"\x15\x03\x03\x00\x02\x01\x00"


NAMED = names(HOST.encode())


def hello(extensions: bytes | None = NAMED, **given: bytes) -> bytes:
    return any_hello(extensions, **given)


def many(count: int) -> bytes:
    return b"".join(extension(0x5000 + one, b"x") for one in range(count))


GOOD: dict[str, bytes] = {
    "the usual": records(hello()),
    "OpenSSL, TLS 1.2": openssl(HOST, TLS12, TLS12),
    "OpenSSL, TLS 1.3": openssl(HOST, TLS13, TLS13),
    "OpenSSL, either": openssl(HOST, TLS12, TLS13),
    "record of TLS 1.1": records(hello(), version=b"\x03\x02"),
    "record of TLS 1.2": records(hello(), version=b"\x03\x03"),
    "greeting of TLS 1.0": records(hello(version=b"\x03\x01")),
    "greeting of TLS 1.1": records(hello(version=b"\x03\x02")),
    "no session": records(hello(session=b"")),
    "capital letters": records(hello(names(b"API.Example.COM"))),
    "the root's dot": records(hello(names(b"api.example.com."))),
    "name after others": records(hello(many(5) + NAMED)),
    "name before others": records(hello(NAMED + many(5))),
    "GREASE in ciphers": records(hello(ciphers=b"\x0a\x0a\x13\x01")),
    "GREASE in extensions": records(
        hello(extension(GREASE[0]) + NAMED + extension(GREASE[1], b"\x00") + extension(GREASE[2]))
    ),
    "ALPN": records(hello(NAMED + extension(16, block(2, block(1, b"h2") + block(1, b"http/1.1"))))),
    "versions": records(hello(NAMED + extension(43, b"\x04\x03\x04\x03\x03"))),
    "early data": records(hello(NAMED + extension(42))) + CHANGE + DATA * 3,
    "large keys": records(hello(NAMED + extension(51, b"k" * 3000))),
    "padding": records(hello(NAMED + extension(21, b"\x00" * 9000))),
    "as large as may be": records(hello(NAMED + extension(21, b"\x00" * (LONGEST - 200))), 16000, 16000),
    "two records": records(hello(), 20),
    "three records": records(hello(), 3, 40),
    "records of a byte": records(hello(), *[1] * len(hello())),
    "cut in the name": records(hello(), hello().index(b"api") + 4),
    "an alert after it": records(hello()) + ALERT,
    "TLS 1.2 to its end": records(hello())
    + records(b"\x10" + block(3, b"p" * 66), version=b"\x03\x03")
    + CHANGE
    + records(b"\x00" * 7 + b"\x01" + b"f" * 32, version=b"\x03\x03")
    + DATA * 4,
    "a client's certificate, in two records": records(hello())
    + records(b"\x0b" + block(3, b"c" * 900) + b"\x10" + block(3, b"p" * 66), 500, version=b"\x03\x03")
    + CHANGE
    + records(b"f" * 40, version=b"\x03\x03")
    + DATA,
    "encrypted messages that begin as a greeting's first byte": records(hello())
    + CHANGE
    + records(b"\x01" + b"f" * 39, version=b"\x03\x03")
    + DATA,
    "asked for again": records(hello()) + CHANGE + records(hello(), version=b"\x03\x03") + CHANGE + DATA,
    "asked for again, without a change": records(hello()) + records(hello(), version=b"\x03\x03") + DATA,
    "asked for again after early data": records(hello()) + CHANGE + DATA + records(hello()) + DATA,
    "asked for again in two records": records(hello()) + CHANGE + records(hello(), 30) + DATA,
    "a heartbeat": records(hello()) + b"\x18\x03\x03\x00\x03\x01\x00\x00",
    "large records": records(hello()) + b"\x17\x03\x03" + block(2, b"d" * (16384 + 2048)),
}
WRONG = records(hello(names(OTHER)))
BAD: dict[str, bytes] = {
    "another name": WRONG,
    "OpenSSL, another name": openssl("elsewhere.example", TLS12, TLS13),
    "OpenSSL, no name": openssl(None, TLS12, TLS13),
    "a name below": records(hello(names(b"x.api.example.com"))),
    "a name above": records(hello(names(b"example.com"))),
    "a name with something before": records(hello(names(b"evilapi.example.com"))),
    "a name with a zero byte": records(hello(names(b"api.example.com\x00.evil.test"))),
    "a name with a blank": records(hello(names(b"api.example.com "))),
    "a name with a port": records(hello(names(b"api.example.com:443"))),
    "a name with two dots at its end": records(hello(names(b"api.example.com.."))),
    "a name of letters that look alike": records(hello(names("\u0430pi.example.com".encode()))),
    "an address": records(hello(names(b"203.0.113.9"))),
    "an empty name": records(hello(names(b""))),
    "an empty list": records(hello(extension(0, block(2, b"")))),
    "an empty extension": records(hello(extension(0))),
    "no name": records(hello(many(3))),
    "no extensions": records(hello(None)),
    "empty extensions": records(hello(b"")),
    "two names": records(hello(names(HOST.encode(), OTHER))),
    "two names, the other first": records(hello(names(OTHER, HOST.encode()))),
    "the same name twice in a list": records(hello(names(HOST.encode(), HOST.encode()))),
    "two lists": records(hello(NAMED + names(OTHER))),
    "two lists, the other first": records(hello(names(OTHER) + NAMED)),
    "the same list twice": records(hello(NAMED + NAMED)),
    "another extension twice": records(hello(NAMED + extension(16) + extension(16))),
    "a name of another kind": records(hello(names(HOST.encode(), kind=1))),
    "a name of another kind too": records(
        hello(extension(0, block(2, b"\x00" + block(2, HOST.encode()) + b"\x01" + block(2, OTHER))))
    ),
    "bytes after the list": records(hello(extension(0, NAMED[4:] + b"\x00"))),
    "a list longer than it is": records(hello(extension(0, b"\x00\x40" + NAMED[6:]))),
    "a name longer than it is": records(hello(extension(0, block(2, b"\x00\x00\x40" + HOST.encode())))),
    "an encrypted greeting": records(hello(NAMED + extension(0xFE0D, b"\x00" + b"e" * 200))),
    "an encrypted greeting, before": records(hello(extension(0xFE0D, b"\x00" + b"e" * 200) + NAMED)),
    "the inner part of one": records(hello(NAMED + extension(0xFE0D, b"\x01"))),
    "an encrypted name": records(hello(NAMED + extension(0xFFCE, b"e" * 200))),
    "record of SSL 3": records(hello(), version=b"\x03\x00"),
    "record of 3.4": records(hello(), version=b"\x03\x04"),
    "record of 3.4, another name": records(hello(names(OTHER)), version=b"\x03\x04"),
    "record of 3.255": records(hello(), version=b"\x03\xff"),
    "record of 2.1": records(hello(), version=b"\x02\x01"),
    "record of DTLS": records(hello(), version=b"\xfe\xfd"),
    "record of nothing": records(hello(), version=b"\x00\x00"),
    "second record of another version": records(hello(), 9)[:14] + b"\x16\x03\x04" + block(2, hello()[9:]),
    "greeting of SSL 3": records(hello(version=b"\x03\x00")),
    "greeting of 3.4": records(hello(version=b"\x03\x04")),
    "greeting of SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"c" * 37,
    "greeting of SSL 2 for TLS": b"\x80\x2e\x01\x03\x03\x00\x15\x00\x00\x00\x10" + b"c" * 37,
    "greeting of SSL 2, long": b"\x40\x2e\x00\x01\x03\x03\x00\x15\x00\x00\x00\x10" + b"c" * 37,
    "an empty record": b"\x16\x03\x01\x00\x00" + records(hello()),
    "an empty record within": records(hello(), 9)[:14] + b"\x16\x03\x01\x00\x00" + records(hello()[9:]),
    "a record that is too long": b"\x16\x03\x01" + (16384 + 2049).to_bytes(2, "big") + b"x" * 20000,
    "an alert within": records(hello(), 9)[:14] + ALERT + records(hello()[9:]),
    "a change within": records(hello(), 9)[:14] + CHANGE + records(hello()[9:]),
    "data within": records(hello(), 9)[:14] + DATA + records(hello()[9:]),
    "an alert before": ALERT + records(hello()),
    "a change before": CHANGE + records(hello()),
    "data before": DATA + records(hello()),
    "a heartbeat before": b"\x18\x03\x01\x00\x03\x01\x00\x00" + records(hello()),
    "a handshake of another kind": records(b"\x02" + hello()[1:]),
    "a request for a greeting": records(b"\x00\x00\x00\x00" + hello()),
    "a greeting that is too long": records(hello(NAMED + extension(21, b"\x00" * LONGEST)), 16000, 16000),
    "a greeting that claims to be": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"x" * 16380,
    "another greeting in its record": records(hello() + hello(names(OTHER))),
    "another message in its record": records(hello() + b"\x10" + block(3, b"p" * 66)),
    "a session that is too long": records(hello(session=b"s" * 33)),
    "no ciphers": records(hello(ciphers=b"")),
    "half a cipher": records(hello(ciphers=b"\x13\x01\x13")),
    "no compression": records(hello(compressions=b"")),
    "another compression only": records(hello(compressions=b"\x01")),
    "bytes after the extensions": records(hello(after=b"\x00\x00")),
    "half an extension": records(hello(NAMED + b"\x00")),
    "an extension longer than it is": records(hello(NAMED + b"\x00\x10\x00\x40x")),
    "a greeting of four bytes": records(b"\x01\x00\x00\x00"),
    "plain HTTP": b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
    "plain HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another tunnel": b"CONNECT elsewhere.example:443 HTTP/1.1\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "SOCKS": b"\x05\x01\x00",
    "PROXY": b"PROXY TCP4 203.0.113.1 203.0.113.2 1 443\r\n" + records(hello()),
    "STARTTLS": b"EHLO there\r\nSTARTTLS\r\n",
    "a request of PostgreSQL": b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    "QUIC": b"\xc3\x00\x00\x00\x01\x08" + b"q" * 1194,
    "zeroes": b"\x00" * 64,
    "a line break first": b"\r\n" + records(hello()),
    "plain HTTP after it": records(hello()) + b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
    "SSL 2 after it": records(hello()) + b"\x80\x2e\x01\x03\x03\x00\x15",
    "a record of 3.4 after it": records(hello()) + b"\x17\x03\x04\x00\x01x",
    "an empty record after it": records(hello()) + b"\x17\x03\x03\x00\x00",
    "another greeting after it": records(hello()) + WRONG,
    "another greeting after a change": records(hello()) + CHANGE + WRONG,
    "another greeting after early data": records(hello()) + CHANGE + DATA * 2 + WRONG,
    "another greeting after data without a change": records(hello()) + DATA + WRONG,
    "another greeting, in two records": records(hello()) + CHANGE + records(hello(names(OTHER)), 50),
    "another greeting, in records of a byte": records(hello())
    + CHANGE
    + records(hello(names(OTHER)), *[1] * 200),
    "another greeting behind another message": records(hello())
    + records(b"\x10" + block(3, b"p" * 66) + hello(names(OTHER))),
    "another greeting behind a long message and a change": records(hello())
    + records(b"\x10\xff\xff\xff" + b"p" * 66)
    + CHANGE
    + WRONG,
    "an encrypted greeting the second time": records(hello())
    + CHANGE
    + records(hello(NAMED + extension(0xFE0D, b"\x00" + b"e" * 200))),
    "asked for again, interrupted": records(hello())
    + records(hello(), 9)[:14]
    + ALERT
    + records(hello()[9:]),
    "no name the second time": records(hello()) + CHANGE + records(hello(many(2))),
    "a second greeting that is too long": records(hello())
    + CHANGE
    + records(hello(NAMED + extension(21, b"\x00" * LONGEST)), 16000, 16000),
}


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def bytewise(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        yield data[at : at + 1]


def anyhow(data: bytes) -> Iterator[bytes]:
    drawn = random.Random(len(data))
    while data:
        size = drawn.choice((1, 2, 5, 6, 11, 100, 1400))
        yield data[:size]
        data = data[size:]


CUTS = (whole, bytewise, anyhow)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", GOOD)
def test_tls_that_names_the_host_passes_unchanged(kind: str, cut: Callable[[bytes], Iterator[bytes]]) -> None:
    """All of it, in order, however it comes; nothing before the first greeting is complete."""
    watch = GreetingWatch(HOST)
    passed = b""
    for piece in cut(GOOD[kind]):
        out = watch.feed(piece)
        assert watch.greeted or out == b""
        passed += out
    assert watch.greeted
    assert passed == GOOD[kind]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", BAD)
def test_anything_else_is_refused(kind: str, cut: Callable[[bytes], Iterator[bytes]]) -> None:
    """However it comes, and no byte of a greeting to another host is passed on before that."""
    watch = GreetingWatch(HOST)
    passed, refused = b"", False
    for piece in cut(BAD[kind]):
        try:
            passed += watch.feed(piece)
        except NotThisHost:
            refused = True
            break
    assert refused
    assert OTHER not in passed
    if not watch.greeted:
        assert passed == b""


def test_incomplete_frames_wait() -> None:
    """A greeting that is cut off anywhere is neither passed on nor refused."""
    for kind in ("the usual", "OpenSSL, either", "three records"):
        data = GOOD[kind]
        for length in range(len(data)):
            watch = GreetingWatch(HOST)
            assert watch.feed(data[:length]) == b""
            assert not watch.greeted


def test_altered_greetings_raise_nothing_else() -> None:
    """Whatever bytes are changed, taken out or put in: they pass or are refused, and name no other host."""
    drawn = random.Random(7)
    refused = 0
    for _ in range(5000):
        data = bytearray(records(hello(names(OTHER) if drawn.random() < 0.5 else NAMED + many(2)), 60))
        for _ in range(drawn.randint(1, 4)):
            at = drawn.randrange(len(data))
            choice = drawn.randrange(3)
            if choice == 0:
                data[at] = drawn.randrange(256)
            elif choice == 1:
                del data[at]
            else:
                data.insert(at, drawn.randrange(256))
        watch = GreetingWatch(HOST)
        try:
            assert OTHER not in watch.feed(bytes(data))
        except NotThisHost:
            refused += 1
    assert refused > 1000


def test_encrypted_records_pass_whatever_is_in_them() -> None:
    """As they follow a change of ciphers in TLS 1.2: all except those that resemble a greeting."""
    drawn = random.Random(11)
    for _ in range(2000):
        watch = GreetingWatch(HOST)
        content = drawn.randbytes(40)
        if content[:2] == b"\x01\x00":
            continue
        data = records(hello()) + CHANGE + records(content, version=b"\x03\x03") + DATA
        assert b"".join(watch.feed(piece) for piece in anyhow(data)) == data
