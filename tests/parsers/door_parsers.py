"""The parsers of requests: the input a caller with any token, or without one, can send to a server."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import h11
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from tests.parsers.altered_inputs import pieces
from tests.parsers.parser_under_test import ParserUnderTest, check_line

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.e2b import (
    code_interpreter,
    connect_wire,
    content_service,
    control_bodies,
    filesystem_service,
    port_traffic,
    sandbox_access,
    sandbox_processes,
)
from holdfast.runtime.e2b.connect_wire import WireBody
from holdfast.runtime.e2b.sandbox_access import SandboxTokens
from holdfast.runtime.serve.calls.call_table import CALLS
from holdfast.runtime.serve.channels import channel_messages
from holdfast.runtime.swerex import expected_output, runtime_bodies, swerex_app

Read = Callable[[bytes, random.Random], object]
TOKENS = SandboxTokens("the-token-of-this-server")


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _envelopes(data: bytes, dice: random.Random) -> None:
    """However a request is cut, it has the same messages; each has a form, or is refused in one line."""
    reader = connect_wire.MessageReader()
    found = [message for piece in pieces(dice, data) for message in reader.feed(piece)]
    reader.end()
    again = connect_wire.MessageReader()
    assert json.dumps(again.feed(data)) == json.dumps(found)
    for message in found:
        for form in (
            sandbox_processes.StartBody,
            sandbox_processes.StreamInputBody,
            filesystem_service.WatchRequest,
        ):
            _of_wire(form, message)


def _of_wire(form: type[WireBody], given: object) -> None:
    try:
        read = form.read(given)
    except InvalidArgument as error:
        check_line(error)
        return
    json.dumps(read.written())


def _body(*forms: type[BaseModel]) -> Read:
    """Return functions that read a body in each of these forms, as routes do."""

    def read(data: bytes, _: random.Random) -> None:
        given = json.loads(data)
        for form in forms:
            try:
                found = form.model_validate(given)
            except ValidationError as error:
                json.dumps(error.errors(include_input=False, include_context=False, include_url=False))
                continue
            _use(found)

    return read


def _use(found: BaseModel) -> None:
    """Ask a body what routes ask it."""
    if isinstance(found, sandbox_processes.InputBytes):
        assert isinstance(found.data, bytes)
        assert found.kind in ("stdin", "pty")
    if isinstance(found, sandbox_processes.SendSignalBody):
        try:
            assert found.name() in ("TERM", "KILL")
        except InvalidArgument as error:
            check_line(error)
    if isinstance(found, sandbox_processes.ProcessRef):
        assert len(str(found.process)) < 500
    for each in found.__dict__.values():
        if isinstance(each, BaseModel):
            _use(each)


def _multipart(data: bytes, dice: random.Random) -> None:
    """The first line is the type of the body; however the rest is cut, it has the same files."""
    kind, _, body = data.partition(b"\n")
    boundary = content_service.boundary_of(kind.decode("latin-1"))
    if boundary is None:
        return
    found = _files(pieces(dice, body), boundary)
    assert found == _files(iter([body]), boundary)


def _files(body: Iterator[bytes], boundary: bytes) -> list[tuple[str, bytes]]:
    return [(each.filename, b"".join(each.content)) for each in content_service.files_in(body, boundary)]


def _address(data: bytes, _: random.Random) -> None:
    """A signed address opens a file only if it is the signed one."""
    scope = {"query_string": data, "method": "GET", "path": "/files", "headers": []}
    found = sandbox_access.signature(scope)
    if found is not None:
        found.expired(1.8e9)
        if TOKENS.signed("a" * 12, found):
            assert (found.path, found.user, found.operation) == ("/etc/motd", "user", "read")


def _heads(data: bytes, dice: random.Random) -> None:
    """A request for a port is passed on without what is meant for the server."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=port_traffic.LONGEST_HEAD)
    connection.receive_data(data)
    asked = connection.next_event()
    if not isinstance(asked, h11.Request):
        return
    headers = [(bytes(name), bytes(value)) for name, value in asked.headers]
    named = sandbox_access.named(dict(headers))
    assert named is None or (named.sandbox.isalnum() and 0 <= named.port <= 99999)
    connect_wire.seconds_of(dict(headers).get(b"connect-timeout-ms", b"0").decode("latin-1"))
    content_service.is_packed(dict(headers).get(b"accept-encoding", b"").decode("latin-1"))
    content_service.metadata_in({name.decode("latin-1"): value.decode("latin-1") for name, value in headers})
    raw, _, query = bytes(asked.target).partition(b"?")
    scope = {"headers": headers, "raw_path": raw, "query_string": query, "method": asked.method.decode()}
    passed = port_traffic.request_head(scope, b"localhost:3000", lambda given: given == b"SECRET", [])
    sent = h11.Connection(h11.CLIENT).send(passed)
    assert sent is not None
    assert not any(name == b"authorization" and value == b"bearer SECRET" for name, value in passed.headers)
    assert sum(name == b"host" for name, _ in passed.headers) == 1


def _message(data: bytes, _: random.Random) -> None:
    message = channel_messages.parse(data.decode("utf-8", "surrogatepass"))
    if isinstance(message, channel_messages.TypeMessage | channel_messages.TypeBytesMessage):
        channel_messages.typed(message)
    if isinstance(message, channel_messages.OpenMessage) and message.call in CALLS:
        form, make = CALLS[message.call]
        try:
            make(form.model_validate(message.args), message.key)
        except ValidationError as error:
            channel_messages.written(message.open, {"message": channel_messages.wrong(error)}).encode()


def _form(data: bytes, dice: random.Random) -> None:
    kind, _, body = data.partition(b"\n")
    left = list(pieces(dice, body))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0) if left else b"", "more_body": bool(left)}

    async def read() -> None:
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", kind)]}
        form = await swerex_app.form_of(Request(scope, receive))
        try:
            found = swerex_app.upload_in(form)
            assert "\0" not in found.path
        finally:
            await form.close()

    anyio.run(read)


def _text_file(data: bytes, dice: random.Random) -> None:
    """The first line is an encoding and the treatment of other bytes, as a client names them."""
    named, _, content = data.partition(b"\n")
    encoding, _, errors = named.decode("latin-1").partition(" ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        json.dumps(swerex_app.decoded(content, encoding or None, errors or None))


def _expected(data: bytes, dice: random.Random) -> None:
    """The first line is a pattern, the rest is output of a session."""
    pattern, _, output = data.decode("utf-8", "surrogateescape").partition("\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of sets in sets, which a later Python may have
        found = expected_output.ExpectedOutput([pattern[: expected_output.LONGEST]])
    found.feed(expected_output.shown(output))
    assert len(found.before) + len(found.after) <= len(output)


_BOUNDARY = b"multipart/form-data; boundary=AbC\n"
_PARTS = (
    b'--AbC\r\nContent-Disposition: form-data; name="file"; filename="/home/user/a.txt"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\none\r\ntwo\r\n"
    b'--AbC\r\nContent-Disposition: form-data; name="file"; filename="caf\xc3\xa9"\r\n\r\n\r\n--AbC--\r\n'
)
_UPLOAD = (
    b'--AbC\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nxyz\r\n'
    b'--AbC\r\nContent-Disposition: form-data; name="target_path"\r\n\r\n/tmp/a\r\n'
    b'--AbC\r\nContent-Disposition: form-data; name="unzip"\r\n\r\nfalse\r\n--AbC--\r\n'
)
_OF_PARTS = (
    *(
        b"--AbC\r\n",
        b"--AbC--",
        b"Content-Disposition: form-data; name=file\r\n",
        b"\r\n\r\n",
        b"; boundary=",
    ),
    *(
        b"filename*=utf-8''%E2%82%AC",
        b"filename*=x''%ff",
        b"filename*0=a",
        b'name="file"',
        b"multipart/form-data",
    ),
)
_START = {
    "process": {"cmd": "/bin/sh", "args": ["-c", "id"], "envs": {"A": "b"}, "cwd": "/tmp"},
    "pty": {"size": {"cols": 80, "rows": 24}},
    "tag": "one",
    "stdin": True,
}
_INPUT = {"process": {"pid": 7}, "input": {"stdin": "aGVsbG8="}}
_WORDS = (b'"pid"', b'"tag"', b'"stdin"', b'"pty"', b"null", b"1e400", b"-0", b'"\\ud800"', b'"__proto__":1')
_HEAD = (
    b"POST /a%20b?x=y HTTP/1.1\r\nHost: 3000-aaaaaaaaaaaa.localhost\r\nAuthorization: bearer SECRET\r\n"
    b"e2b-sandbox-id: aaaaaaaaaaaa\r\ne2b-sandbox-port: 3000\r\nConnect-Timeout-Ms: 5000\r\nCookie: a=b\r\n"
    b"Accept-Encoding: gzip;q=0.5, br\r\nx-metadata-a: b\r\nConnection: keep-alive, x-own\r\nx-own: 1\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_OF_HEADS = (
    *(b"Host: ", b"\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: host\r\n", b"e2b-sandbox-port: "),
    *(b"Content-Length: 5\r\n", b"Upgrade: websocket\r\n", b"\r\n ", b"Authorization: Bearer SECRET\r\n"),
)
_OPEN = {"open": 1, "session": "work", "credit": 1000, "patience": 5.0}


def _opened(call: str, **args: object) -> bytes:
    return _json({**_OPEN, "call": call, "args": args})


def _signed(path: str, user: str) -> bytes:
    import base64
    import hashlib

    text = ":".join((path, "read", user, TOKENS.access("a" * 12), "1900000000"))
    made = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"path={path}&username={user}&signature_expiration=1900000000&signature=v1_{made}".encode()


PARSERS = (
    ParserUnderTest(
        "connect envelopes",
        (
            connect_wire.message(_START),
            connect_wire.message({"start": {"process": {"pid": 1}}})
            + connect_wire.message({"data": {"input": {"pty": "AA=="}}})
            + connect_wire.last(),
            connect_wire.message({"path": "/tmp", "recursive": True}),
        ),
        _envelopes,
        (InvalidArgument,),
        (b"\0\0\0\0\2{}", b"\2\0\0\0\0", b"\1\0\0\0\0", b"\0\xff\xff\xff\xff", *_WORDS),
    ),
    ParserUnderTest(
        "bodies of E2B's processes and files",
        (
            _json(_START),
            _json(_INPUT),
            _json({"process": {"tag": "x"}, "signal": "SIGNAL_SIGKILL"}),
            _json({"path": "/a", "depth": 2}),
        ),
        _body(
            *(sandbox_processes.StartBody, sandbox_processes.SendInputBody, sandbox_processes.SendSignalBody),
            *(
                sandbox_processes.UpdateBody,
                sandbox_processes.StreamInputBody,
                filesystem_service.ListRequest,
            ),
            *(
                filesystem_service.RenameRequest,
                filesystem_service.WatchRequest,
                filesystem_service.WatcherRequest,
            ),
        ),
        (ValueError, RecursionError),
        _WORDS,
    ),
    ParserUnderTest(
        "bodies of E2B's control plane and code",
        (
            _json(
                {
                    "templateID": "base",
                    "timeout": 60,
                    "metadata": {"a": "b"},
                    "envVars": {"A": "b"},
                    "secure": True,
                }
            ),
            _json({"code": "1+1", "language": "python", "env_vars": {"A": "b"}}),
            _json({"allowOut": ["1.1.1.1/32", "*.example.com"], "denyOut": ["0.0.0.0/0"]}),
        ),
        _body(
            *(control_bodies.NewSandbox, control_bodies.ConnectBody, control_bodies.TimeoutBody),
            *(control_bodies.ForkBody, control_bodies.NetworkBody, code_interpreter.Execution),
            code_interpreter.NewContext,
        ),
        (ValueError, RecursionError, HoldfastError),
        _WORDS,
    ),
    ParserUnderTest(
        "files of a multipart body", (_BOUNDARY + _PARTS,), _multipart, (InvalidArgument,), _OF_PARTS
    ),
    ParserUnderTest(
        "signed addresses",
        (_signed("/etc/motd", "user"),),
        _address,
        (),
        (b"&path=", b"&signature=", b"%2", b"%ff", b"&", b"=", b";", b"signature_expiration=", b"+"),
    ),
    ParserUnderTest(
        "heads of requests for ports",
        (_HEAD,),
        _heads,
        (h11.ProtocolError, InvalidArgument),
        _OF_HEADS,
        port_traffic.LONGEST_HEAD,
    ),
    ParserUnderTest(
        "messages of a WebSocket",
        (
            _opened("exec", command="make", timeout=5.0),
            _opened("cell", code="1+1"),
            _opened("attach", shell="main", rows=24, cols=80),
            _json({"channel": 1, "type": "a"}),
            _json({"channel": 1, "type_base64": "AAAA"}),
            _json({"channel": 1, "resize": [24, 80]}),
            _json({"channel": 1, "credit": 5}),
            _json({"close": 1}),
        ),
        _message,
        (InvalidArgument, UnicodeDecodeError),
        (*_WORDS, b'"open"', b'"channel"', b'"resize"', b'"args"'),
    ),
    ParserUnderTest(
        "bodies of SWE-ReX",
        (
            _json(
                {"action_type": "bash", "command": "ls", "session": "default", "timeout": 5, "expect": ["a$"]}
            ),
            _json({"action_type": "bash_interrupt", "session": "default"}),
            _json({"command": ["ls", "-l"], "env": {"A": "b"}, "cwd": "/tmp", "check": True}),
            _json({"path": "/a", "content": "b"}),
        ),
        _body(
            *(runtime_bodies.ShellCommand, runtime_bodies.ShellInterrupt, runtime_bodies.PlainCommand),
            *(runtime_bodies.FileToRead, runtime_bodies.FileToWrite, runtime_bodies.NewShell),
        ),
        (ValueError, RecursionError),
        _WORDS,
    ),
    ParserUnderTest(
        "uploads of SWE-ReX", (_BOUNDARY + _UPLOAD,), _form, (InvalidArgument,), _OF_PARTS, 1 << 16
    ),
    ParserUnderTest(
        "text files of SWE-ReX",
        (
            b"utf-8 strict\nabc",
            b"latin-1 \nabc\xff",
            b"utf-16 replace\n\xff\xfea\0b\0",
            b"utf-7 ignore\na+AGE-",
            b" \nabc",
        ),
        _text_file,
        (InvalidArgument,),
        (
            b"idna",
            b"punycode",
            b"unicode_escape",
            b"rot13",
            b"base64",
            b"surrogateescape",
            b"undefined",
            b"mbcs",
            b"\\x",
            b"\\N{",
            b"+A",
        ),
        4096,
    ),
    ParserUnderTest(
        "patterns of SWE-ReX",
        (b"a[bc]+$\nxabcb", b"(?:a|b)\\$ \nuser$ "),
        _expected,
        (InvalidArgument,),
        (
            b"(?:",
            b"(?P<a>",
            b"{1,9999999}",
            b"{,",
            b"[^]",
            b"[[:x:]]",
            b"\\1",
            b"*?",
            b"++",
            b"$",
            b"\x1b[31m",
            b"\xff",
        ),
        1 << 15,
    ),
)
