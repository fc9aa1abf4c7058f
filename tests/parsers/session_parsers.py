"""The parsers of input from sessions, peers and hosts of the internet: frames, archives, greetings, pages."""

from __future__ import annotations

import bz2
import functools
import gzip
import hashlib
import io
import json
import lzma
import random
import socket
import tarfile
import tempfile
from typing import Any

import h11
import zstandard
from tests.engine.fake_engine import FakeEngine
from tests.parsers.altered_inputs import pieces
from tests.parsers.parser_under_test import ParserUnderTest, check_line
from tests.runtime.orchestration import context_of
from tests.tls_greetings import hello, openssl, records
from tests.tls_greetings import names as server_names

from holdfast.base.bounded_tar import BoundedTar, PlainStream
from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, ProtocolError
from holdfast.runtime.e2b import port_traffic
from holdfast.runtime.gateway import destinations, greetings, names
from holdfast.runtime.gateway.exchange import Exchange
from holdfast.runtime.gateway.session_rules import Secret, SessionRules
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.protocol import Frame, FrameError, FrameReader
from holdfast.runtime.guest_rpc import (
    event,
    guest_value,
    kernel_report,
    shell_report,
    wait_state,
    wire_fields,
)
from holdfast.runtime.guest_rpc.guest_client import raise_error
from holdfast.runtime.guest_rpc.program_result import ProgramInfo
from holdfast.runtime.moving import move_wire, receiver
from holdfast.runtime.operations.context import Context
from holdfast.runtime.pulse import pulse
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.checkpointer.wire import requests

HOST = "example.com"
OPEN = SessionRules("work")
MODULES = (kernel_report, shell_report, pulse)
"""Loaded, so that the forms in them are known."""
_FIELDS = ("event", "offset", "id", "state", "exit_code", "text", "at", "rows", "report", "error", "message")


def _frames(data: bytes, dice: random.Random) -> None:
    """However they are cut, frames are the same; each field is of the type that is asked for, or refused."""
    reader = FrameReader()
    found = [frame for piece in pieces(dice, data) for frame in reader.feed(piece)]
    again = FrameReader()
    assert repr(again.feed(data)) == repr(found)
    assert reader.pending == again.pending
    for frame in found:
        for key in _FIELDS:
            _fields(frame, key)
        for read in (wire_fields.body, wire_fields.json_of, wire_fields.event, raise_error, event.parse):
            _refused(read, frame.head if read is event.parse else frame)
        for form in _guest_values():
            _refused(form.of, frame.head)
            _refused(form.of, frame.head.get("report"))
        _refused(ProgramInfo.of, frame)
        _refused(wait_state.state, frame.head.get("state"))
        json.dumps(frame.head)


def _guest_values() -> list[Any]:
    return guest_value.GuestValue.__subclasses__()


def _refused(read: Any, given: object) -> None:
    """Read something; an error has one line that any terminal can show."""
    try:
        found = read(given)
    except HoldfastError as error:
        check_line(error)
        return
    if isinstance(found, guest_value.GuestValue):
        found.model_dump_json()


def _fields(frame: Frame, key: str) -> None:
    for read, kind in (
        (wire_fields.integer, int),
        (wire_fields.number, float),
        (wire_fields.text, str),
        (wire_fields.flag, bool),
        (wire_fields.rows, list),
        (wire_fields.integers, list),
    ):
        try:
            assert isinstance(read(frame, key), kind)
        except ProtocolError as error:
            check_line(error)


def _archive(data: bytes, _: random.Random) -> None:
    """Every member, with its content; compressed in any way or not."""
    plain = PlainStream(io.BytesIO(data))
    made = BoundedTar(plain)  # type: ignore[arg-type]  # it has what is read of a file
    size = 0
    for count, member in enumerate(made):
        content = made.content(member)
        while content is not None and (piece := content.read(1 << 16)):
            size += len(piece)
            if size > 64 << 20:
                return
        if count > 10_000:
            return


def archive() -> bytes:
    """Return an archive with members of all kinds, and headers of all formats."""
    file = io.BytesIO()
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(fileobj=file, mode="w", format=form) as made:
            for name, kind in (("a", b"0"), ("b", b"5"), ("c", b"2"), ("d", b"1"), ("n" * 99, b"0")):
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, "a" if kind in b"12" else ""
                member.size = 5 if kind == b"0" else 0
                if form == tarfile.PAX_FORMAT:
                    member.pax_headers = {"SCHILY.xattr.user.a": "b", "mtime": "1.5"}
                made.addfile(member, io.BytesIO(b"hello") if member.size else None)
    return file.getvalue()


def _greeting(data: bytes, dice: random.Random) -> None:
    """Only what names the host is passed on, and unchanged."""
    watch = greetings.GreetingWatch(HOST)
    passed = b"".join(watch.feed(piece) for piece in pieces(dice, data))
    assert data.startswith(passed)
    assert not passed or HOST.encode() in passed.lower()


def _request(data: bytes, dice: random.Random) -> None:
    """The place of a CONNECT or of a URL, and the judgement of the addresses that it has."""
    text = data.decode("latin-1")
    names.Domain.parse(text)
    host, _ = names.with_port(text.removeprefix("*."), 443)
    assert names.canonical(host) == host
    address = names.parsed_address(host)
    if address is not None:
        packed = socket.inet_pton(socket.AF_INET if address.version == 4 else socket.AF_INET6, str(address))
        assert packed == address.packed
        assert not address.is_loopback or destinations.reachable(OPEN, host, 443, [address]) == []


def _exchange(data: bytes, dice: random.Random) -> None:
    """However an answer is cut, it does not contain a value of a secret; a request does not contain a
    placeholder."""
    secret = Secret("TOKEN", "holdfast-secret-" + "0" * 32, (), 'v a+l/u"e')
    made = Exchange([secret])
    sent = (
        made.target(data),
        made.header(data),
        made.body(data, "application/json"),
        made.header(b"Basic " + data),
    )
    assert all(secret.placeholder.encode() not in each for each in sent[:3])
    stream = made.stream()
    given = [piece for piece in pieces(dice, data + b'v a+l/u"e') for piece in stream(piece)]
    answer = b"".join([*given, *stream(b"")])
    assert secret.value.encode() not in answer


def _answer(data: bytes, dice: random.Random) -> None:
    """An answer of a server in a session, on its way to a browser."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=port_traffic.LONGEST_HEAD)
    http.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    http.send(h11.EndOfMessage())
    for piece in (*pieces(dice, data), b""):
        http.receive_data(piece)
        while (found := http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(found, h11.Response):
                for name, value in port_traffic.answer_head(found) or ():
                    assert name != b"set-cookie" or b";domain=" not in value.lower().replace(b" ", b"")
            if isinstance(found, h11.EndOfMessage | h11.ConnectionClosed):
                return


def _moved(data: bytes, dice: random.Random) -> None:
    """Requests of a source of moves: each reply is one line of its protocol, and nothing is started."""
    context, said = _receiving(), io.BytesIO()
    key = Keys(context.home).sending()[0].public.encode()
    receiver.serve(context, io.BytesIO(data.replace(b"OWN-KEY", key)), said)
    answers = io.BytesIO(said.getvalue())
    move_wire.read_greeting(answers)
    for line in answers:
        found = json.loads(line)
        if found.get("ok") is not True:
            assert found.keys() == {"error", "text", "hint"}
            assert "\n" not in found["text"], found
    assert [row for row in context.store.sessions() if row.state != "removed"] == []
    kept = context.home.root / "downloads"
    assert {path.name for path in kept.glob("*")} <= {
        DIGEST[7:],
        *(path.name for path in kept.glob("*.part")),
    }


@functools.cache
def _receiving() -> Context:
    """A home with an engine in memory, for all inputs."""
    return context_of(Home(tempfile.mkdtemp()).create(), FakeEngine())


def _answers_of_receivers(data: bytes, _: random.Random) -> None:
    """Answers of a receiver of moves, by every reader of them."""
    stream = io.BytesIO(data)
    move_wire.read_greeting(stream)
    fields = move_wire.reply(move_wire.read_line(stream))
    for read in (
        move_wire.session_there,
        move_wire.state_of,
        move_wire.size_of,
        lambda each: move_wire.count_of(each, "there", 5),
    ):
        try:
            found = read(fields)
        except move_wire.WireBroken as error:
            check_line(error)
            continue
        assert plain(str(found), 1 << 20) == str(found)


def _frame(head: dict[str, Any], payload: bytes = b"") -> bytes:
    return protocol.encode(Frame(head, payload))


def _tls() -> tuple[bytes, ...]:
    import ssl

    versions = ssl.TLSVersion
    own = (
        records(hello(names=server_names(HOST.encode())))
        if False
        else openssl(HOST, versions.TLSv1_2, versions.TLSv1_3)
    )
    return (own, openssl(HOST, versions.TLSv1_2, versions.TLSv1_2))


_REPORT = {"name": "main", "state": "running", "pid": 7, "rows": 24, "cols": 80, "cwd": "/tmp", "offset": 5}
_REQUEST = {"v": requests.PROTOCOL, "op": "hello", "container": "a" * 64}
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Domain=.localhost; Path=/\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\nx: y\r\n\r\n"
)

DIGEST = f"sha256:{hashlib.sha256(b'part').hexdigest()}"
_ASKED: tuple[dict[str, Any], ...] = (
    {"do": "prepare", "name": "work", "key": "OWN-KEY", "actor": "person:ann", "options": {"pids": 100}},
    {"do": "has", "digest": DIGEST, "size": 4},
    {"do": "put", "digest": DIGEST, "size": 4, "bytes": 4},
    {"do": "layers", "diff_ids": [DIGEST]},
    {"do": "find", "attempt": "7", "name": "work"},
    {"do": "start", "bundle": DIGEST, "attempt": "7", "name": "work", "source": "x", "policy": {}},
    {"do": "fetch", "reference": "-x", "bundle": DIGEST, "plain_http": False},
)

PARSERS = (
    ParserUnderTest(
        "frames of a supervisor",
        (
            _frame({"event": "output", "offset": 5}, b"abc")
            + _frame({"event": "exit", "exit_code": 0, "end": True}),
            _frame({"event": "shell", "report": _REPORT, "state": {"name": "busy"}, "end": True}, b"{}"),
            _frame({"event": "error", "error": "busy", "message": "cannot\x1b[31m"}),
            _frame(
                {
                    "event": "program",
                    "id": "a",
                    "state": "ended",
                    "exit_code": 1,
                    "argv": ["a"],
                    "started": 1.5,
                }
            ),
        ),
        _frames,
        (FrameError, HoldfastError),
        (
            b"\0\0\0\2\0\0\0\0{}",
            b"\xff\xff\xff\xff",
            b'"event"',
            b'"end":true',
            b"1e999",
            b"NaN",
            b'"\\ud800"',
        ),
    ),
    ParserUnderTest(
        "archives",
        tuple(
            pack(archive())
            for pack in (bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.compress)
        ),
        _archive,
        (tarfile.TarError, EOFError),
        (
            b"ustar\000",
            b"\x80" + b"\xff" * 11,
            b"100 path=x\n",
            b"GNU.sparse.size=9",
            b"0" * 12,
            b"x",
            b"L",
            b"\x1f\x8b",
        ),
        1 << 16,
    ),
    ParserUnderTest(
        "greetings of TLS",
        _tls(),
        _greeting,
        (greetings.NotThisHost,),
        (
            b"\x16\x03\x01",
            b"\x14\x03\x03\0\1\1",
            b"\0\0",
            b"\xfe\x0d",
            b"\x17\x03\x03\x40\0",
            HOST.encode(),
            b"\1\0\0\0",
        ),
    ),
    ParserUnderTest(
        "places of the gateway",
        (b"example.com:443", b"*.example.com", b"api.example.com"),
        _request,
        (ValueError,),
        (b".", b":", b"*.", b"0x7f.1", b"127.1", b"[::1]", b"%", b"xn--", b"\xad", b"\xe3\x80\x82"),
        1 << 14,
    ),
    ParserUnderTest(
        "bodies with secrets",
        (b"a holdfast-secret-" + b"0" * 32 + b" b", b'v a+l/u"e', b"djphbA=="),
        _exchange,
        (),
        (b"holdfast-secret-", b"0" * 32, b"v a+l/", b"v%20a", b'\\"', b"v a"),
    ),
    ParserUnderTest(
        "answers of servers in sessions",
        (_ANSWER,),
        _answer,
        (h11.ProtocolError,),
        (
            b"\r\n",
            b"HTTP/1.1 ",
            b"100 Continue\r\n\r\n",
            b"Content-Length: 3\r\n",
            b"; domain=",
            b"ffffffff\r\n",
            b"Set-Cookie: ",
        ),
    ),
    ParserUnderTest(
        "requests of a source of moves",
        (
            b"".join(map(move_wire.line, _ASKED[:3])) + b"part" + b"".join(map(move_wire.line, _ASKED[3:])),
            move_wire.line(_ASKED[0]) + move_wire.line({"do": "import", "bytes": 2, "source": "x"}) + b"{}",
        ),
        _moved,
        (),
        (
            *(
                b'"do":"start"',
                b'"do":"find"',
                b'"do":"put"',
                b'"do":"layers"',
                b'"do":"fetch"',
                b'"bytes":9',
            ),
            *(b"\n", b'"options":{"image":"x"}', b'"../x"', b'"\\ud800"', b"1e999", b"-1", DIGEST.encode()),
        ),
        1 << 16,
    ),
    ParserUnderTest(
        "answers of a receiver of moves",
        (
            b"noise\n" + move_wire.greeting("1.2") + move_wire.line({"ok": True, "session": "a" * 12}),
            move_wire.greeting("1")
            + move_wire.line({"ok": True, "state": "running", "there": 3, "bytes": 7}),
        ),
        _answers_of_receivers,
        (move_wire.WireBroken, move_wire.Refused),
        (move_wire.GREETING, b'"ok":true', b'"error":', b'"deviations":[', b'"\\u202e"', b"\n"),
    ),
    ParserUnderTest(
        "requests to the checkpointer",
        (json.dumps(_REQUEST).encode(),),
        lambda data, _: requests.parse(data),
        (requests.BadRequest,),
        (b'"op":', b'"dump"', b'"restore"', b'"confine"', b'"rules":{}', b"null", b"1e999"),
    ),
)
