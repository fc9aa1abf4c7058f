"""Connect's wire as clients of E2B speak it: frames, bodies, errors, and streamed answers.

A message of a stream is one byte of flags, its length (4 bytes, big endian), and JSON; the last of an
answer has flag 2, and the error in it, if there was one (connectrpc.com/docs/protocol). Names of fields are
in camel case; unknown fields of a client are ignored, as in Proto3 JSON. Knows nothing of sandboxes.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from holdfast.base.text import plain
from holdfast.errors import (
    GuestDisconnected,
    HoldfastError,
    InvalidArgument,
    SessionBusy,
    SessionDead,
    SessionError,
    SessionNotFound,
)
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.calls.followed_calls import ServedCall
from holdfast.runtime.serve.event_format import Event
from holdfast.runtime.serve.event_streams import CallResponse, StreamedCall

MEDIA_TYPE = "application/connect+json"
LONGEST = 16 << 20
"""Bytes of a message that is accepted."""
_HEAD = struct.Struct(">BI")
_COMPRESSED, _LAST = 1, 2


def message(content: Mapping[str, Any]) -> bytes:
    """Return a message of an answer."""
    return _framed(0, content)


def last(code: str = "", told: str = "") -> bytes:
    """Return the last message of an answer; with a code it reports an error."""
    return _framed(_LAST, {"error": {"code": code, "message": told}} if code else {})


def _framed(flags: int, content: Mapping[str, Any]) -> bytes:
    body = json.dumps(content, separators=(",", ":")).encode()
    return _HEAD.pack(flags, len(body)) + body


class MessageReader:
    """Reads the messages of a request from its bytes as they come."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that are now complete.

        Raises:
            InvalidArgument: it is not a message.
        """
        self._left += data
        found = []
        while len(self._left) >= _HEAD.size:
            flags, length = _HEAD.unpack_from(self._left)
            if flags & _COMPRESSED or length > LONGEST:
                raise InvalidArgument(
                    "cannot read the message: it is compressed, or longer than 16 MiB",
                    hint="send it uncompressed, and in parts",
                )
            if len(self._left) < _HEAD.size + length:
                break
            body = bytes(self._left[_HEAD.size : _HEAD.size + length])
            del self._left[: _HEAD.size + length]
            if not flags & _LAST:
                found.append(_object(body))
        return found

    def end(self) -> None:
        """Check that nothing is left.

        Raises:
            InvalidArgument: the last message is not whole.
        """
        if self._left:
            raise InvalidArgument("cannot read the message: the rest of it is missing")


def whole(data: bytes) -> dict[str, Any]:
    """Return the only message of a request.

    Raises:
        InvalidArgument: it has none, or several.
    """
    reader = MessageReader()
    found = reader.feed(data)
    reader.end()
    if len(found) != 1:
        raise InvalidArgument(f"cannot read the request: it has {len(found)} messages instead of one")
    return found[0]


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument("cannot read the message: it is not a JSON object")
    return found


class WireBody(BaseModel):
    """A body of a request or an answer."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    @classmethod
    def read(cls, given: Any) -> Self:
        """Read a message of a stream.

        Raises:
            InvalidArgument: it has another form.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidArgument(
                f"cannot read the message: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from None

    def written(self) -> dict[str, Any]:
        """Return the fields as JSON; unknown ones are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


RPC_PATHS = ("/process.Process/", "/filesystem.Filesystem/")
RPC_CODES = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    405: "unimplemented",
    409: "failed_precondition",
    413: "resource_exhausted",
    422: "invalid_argument",
    429: "resource_exhausted",
    501: "unimplemented",
    502: "unavailable",
    503: "unavailable",
    504: "deadline_exceeded",
    507: "resource_exhausted",
}


class SandboxUnavailable(SessionError):
    """A sandbox that does not run, which clients expect as 502."""

    code = "sandbox_unavailable"


class SandboxNotFound(HoldfastError):
    """The sandbox does not exist (any more); an answer of the control plane."""

    code = "sandbox_not_found"


class InputNotTaken(HoldfastError):
    """A process did not take its input in time."""

    code = "input_not_taken"


class SandboxBusy(SessionError):
    """A different operation holds the sandbox; the same request can be repeated soon."""

    code = "sandbox_busy"


class AlreadyPaused(SessionError):
    """The sandbox is already paused, which clients expect as 409."""

    code = "already_paused"


class CannotPause(SessionError):
    """The sandbox cannot be captured in its present state."""

    code = "cannot_pause"


class WatcherNotFound(HoldfastError):
    """The watcher was removed, or has not been polled for long."""

    code = "watcher_not_found"


class NotOffered(HoldfastError):
    """A feature of the wire that sessions do not have."""

    code = "not_offered"


_STATUSES: dict[type[HoldfastError], int] = {
    NotOffered: 501,
    InputNotTaken: 504,
    SandboxNotFound: 404,
    WatcherNotFound: 404,
    SandboxBusy: 503,
    CannotPause: 422,
}


def status_of(error: HoldfastError) -> int:
    """Return the status that tells a client of an error."""
    if type(error) in _STATUSES:
        return _STATUSES[type(error)]
    gone = SandboxUnavailable | SessionNotFound | SessionDead | GuestDisconnected
    if isinstance(error, gone) and not isinstance(error, SessionBusy):
        return 502
    return answer_forms.status_of(error)


def sentence(error: HoldfastError) -> str:
    """Return its message and hint, in one line."""
    return f"{error}; {error.hint}" if error.hint else str(error)


def rpc_code(status: int) -> str:
    """Return the name that an RPC gives to a status."""
    return RPC_CODES.get(status, "internal")


def error_body(path: str, status: int, message: str) -> dict[str, Any]:
    """Return the body of an answer that reports an error.

    A sandbox that does not run is reported in the words of E2B's proxy, which clients look for.
    """
    rpc = path.startswith(RPC_PATHS) and status != 502
    return {"code": rpc_code(status) if rpc else status, "message": plain(message, 2000)}


DEADLINE = {"deadline": True}
"""The result of a call whose time was over: the stream ends with that error."""
AHEAD = 0.1
"""Seconds, at most a tenth of the client's time, by which the answer precedes the client's own clock.

Clients before 2.63 wait that long for each message, and then raise a bare timeout of their transport.
"""
KEEPALIVE_SECONDS = 45.0
GONE = 502
"""The status of a sandbox that does not run."""
_KEEPALIVE: dict[str, Any] = {"event": {"keepalive": {}}}


async def only_message(request: Request) -> dict[str, Any]:
    """Return the only message of a request whose answer is a stream.

    Raises:
        InvalidArgument: it has none, or several.
        HTTPException: the client leaves before it is whole (400).
    """
    try:
        return whole(await request.body())
    except ClientDisconnect as error:
        raise HTTPException(400, "the client left before the request was whole") from error


def seconds_given(caller: ApiCaller) -> float | None:
    """Return the time limit of a stream, so that its client still hears of its end; None without a limit.

    Raises:
        InvalidArgument: the header that gives it is not a number.
    """
    return seconds_of(caller.connection.headers.get("connect-timeout-ms"))


def seconds_of(header: str | None) -> float | None:
    """Return the same for the text of the header.

    Raises:
        InvalidArgument: it is not a number.
    """
    if header is None:
        return None
    if not re.fullmatch(r"\d{1,10}", header):
        raise InvalidArgument("cannot read the header connect-timeout-ms: it is not a number of milliseconds")
    seconds = int(header) / 1000
    return seconds - min(AHEAD, seconds / 10) or None


async def streamed(
    caller: ApiCaller, sandbox: str, call: ServedCall, seconds: float | None, keepalive: Event = _KEEPALIVE
) -> CallResponse:
    """Return the answer to an RPC in a sandbox.

    Messages are sent as the call emits them. Its result is not sent; `DEADLINE` is an error. `keepalive` is
    sent when there is nothing else.

    Raises:
        HoldfastError: it failed before it had emitted any.
    """
    running = StreamedCall(caller, sandbox, seconds, call)
    await running.begin()
    pulse = KEEPALIVE_SECONDS
    given = caller.connection.headers.get("keepalive-ping-interval", "")
    if re.fullmatch(r"\d{1,4}", given):
        pulse = max(1.0, int(given) * 0.9)
    messages = _messages(running, pulse, keepalive, lambda: answer.cut())
    answer = CallResponse(running, messages, MEDIA_TYPE)
    return answer


async def _messages(
    call: StreamedCall, pulse: float, keepalive: Event, cut: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Yield the frames of an answer.

    The answer of a removed sandbox is cut, as by the proxy of E2B: clients in JavaScript ask then whether
    it runs.
    """
    async for event in call.events(pulse):
        if event is None:
            yield message(keepalive)
        elif isinstance(event, HoldfastError):
            status = status_of(event)
            if status == GONE:
                cut()
            else:
                yield last(rpc_code(status), sentence(event))
        elif event.get("event") == "result":
            yield _end(event)
        else:
            yield message(event)


def _end(result: Event) -> bytes:
    if result.get("deadline"):
        return last("deadline_exceeded", "the time that the client gave is over")
    return last()
