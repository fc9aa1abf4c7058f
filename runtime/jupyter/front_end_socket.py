"""One WebSocket of a front end, joined to a kernel of a session: messages both ways, also across captures.

A capture ends the connection to the session. It is made again at the last sent message, and unconfirmed
messages are sent once more, so a front end notices nothing. While the session is suspended, the front end
stays connected here; a request that is more than a look wakes one that sleeps. A session's messages are
bounded and passed on only in the form of Jupyter. Older front ends have messages in JSON, as text or as bytes
with buffers: big-endian numbers of 32 bits (how many parts there are, and the offset of each), the JSON, the
buffers.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import secrets
import struct
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.base.text import plain
from holdfast.errors import GuestDisconnected, HoldfastError, InvalidArgument, ProtocolError, SessionError
from holdfast.runtime.guest.wire import kernel_messages, protocol
from holdfast.runtime.guest.wire.kernel_messages import MOST_PARTS, MessageMalformed
from holdfast.runtime.guest.wire.protocol import Frame, FrameReader
from holdfast.runtime.guest_rpc import guest_client, session_sockets, wire_fields
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.jupyter import kernel_table
from holdfast.runtime.jupyter.kernel_table import GatewayKernel, KernelTable
from holdfast.runtime.lifetimes import waking
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.session_links import SessionLinks, SessionStream
from holdfast.runtime.store import lifetime

PARTS = ("header", "parent_header", "metadata", "content")


def legacy_shown(channel: str, parts: list[bytes]) -> str | bytes:
    """Return a message of a kernel for a client.

    Raises:
        MessageMalformed: it is not valid.
    """
    header = kernel_messages.header_of(parts)
    fields = {name: kernel_messages.parsed(part) for name, part in zip(PARTS, parts, strict=False)}
    buffers = parts[len(PARTS) :]
    message = {"msg_id": header["msg_id"], "msg_type": header["msg_type"], **fields}
    message |= {"channel": channel, "buffers": []}
    text = json.dumps(message, ensure_ascii=False)
    if not buffers:
        return text.encode("utf-8", "replace").decode()
    every = [text.encode("utf-8", "replace"), *buffers]
    offsets = [4 * (len(every) + 1)]
    for each in every[:-1]:
        offsets.append(offsets[-1] + len(each))
    return b"".join((struct.pack(f">{len(every) + 1}I", len(every), *offsets), *every))


def legacy_read(data: str | bytes) -> bytes:
    """Return a client's message in the binary form of kernel messages.

    Raises:
        MessageMalformed: it is not a message.
    """
    text, buffers = (data, []) if isinstance(data, str) else _cut(data)
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageMalformed("it is not JSON") from None
    if not isinstance(message, dict) or not all(isinstance(message.get(name, {}), dict) for name in PARTS):
        raise MessageMalformed("its header, metadata or content is not an object")
    # Not all clients say the channel: requests are of the shell then.
    channel = message.get("channel", "shell")
    if channel not in kernel_messages.CHANNELS:
        raise MessageMalformed("it does not name a channel")
    parts = [kernel_messages.written(message.get(name, {})) for name in PARTS]
    kernel_messages.header_of(parts)
    return kernel_messages.pack(channel, [*parts, *buffers])


def _cut(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the JSON and the buffers of a message with buffers."""
    if len(data) < 4:
        raise MessageMalformed("it is shorter than its first number")
    (count,) = struct.unpack_from(">I", data)
    if not 1 <= count <= MOST_PARTS - len(PARTS) or len(data) < 4 * (count + 1):
        raise MessageMalformed(f"it cannot have {count} parts")
    offsets = [*struct.unpack_from(f">{count}I", data, 4), len(data)]
    if offsets[0] != 4 * (count + 1) or offsets != sorted(offsets):
        raise MessageMalformed("its offsets do not match its parts")
    found = [data[low:high] for low, high in itertools.pairwise(offsets)]
    return found[0], found[1:]


V1 = "v1.kernel.websocket.jupyter.org"
MOST_UNCONFIRMED, MOST_UNCONFIRMED_BYTES = 64, 16 << 20
"""Messages of a front end that the session has not confirmed; no more are read from it meanwhile."""
MOST_ATTEMPTS = 20
"""Connections to a session in a row that end before it has answered."""
PAUSE = 0.1
"""Seconds before another attempt."""
AWAY = 1.0
"""Seconds between two looks at a session that is suspended."""
LOOKS = frozenset(("kernel_info_request", "comm_info_request", "connect_request", "history_request"))
"""Requests that tabs send of their own accord: they wake no session."""
PIECE = 64 << 10
INLINE = 64 << 10
"""Bytes of a message that is converted in the loop; a larger one would keep it from others."""
_CLIENT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_STATES = frozenset(("starting", "idle", "busy"))
_POLICY, _TOO_LARGE, _FAILED, _RESTART, _AGAIN = 1008, 1009, 1011, 1012, 1013
_REASON = 100
"""Characters of the reason of a close, which has at most 123 bytes."""


class _FrontMessage(NamedTuple):
    """A message of a front end, encoded for the session."""

    data: bytes
    looks: bool


class FrontEndSocket:
    """One connection of one front end."""

    def __init__(
        self,
        websocket: WebSocket,
        caller: ApiCaller,
        kernel: GatewayKernel,
        table: KernelTable,
        links: SessionLinks,
    ) -> None:
        self._websocket, self._caller, self._kernel = websocket, caller, kernel
        self._table, self._links = table, links
        offered = websocket.headers.get("sec-websocket-protocol", "")
        self._binary = V1 in {each.strip() for each in offered.split(",")}
        given = websocket.query_params.get("session_id") or secrets.token_hex(16)
        self._client = given if _CLIENT.fullmatch(given) else hashlib.sha256(given.encode()).hexdigest()
        self._link = secrets.token_hex(16)
        self._at = table.place(kernel.id, self._client)
        self._number = 0
        self._unconfirmed: OrderedDict[int, _FrontMessage] = OrderedDict()
        self._room = asyncio.Event()
        self._stream: SessionStream | None = None
        self._from_client: asyncio.Task[None] | None = None
        self._left = asyncio.Event()

    async def run(self) -> None:
        """Pass messages on until either end leaves, or the server stops.

        Raises:
            HoldfastError: the kernel cannot be reached, and the WebSocket was not accepted.
        """
        serving = asyncio.ensure_future(self._serve())
        ends = [asyncio.ensure_future(each.wait()) for each in (self._caller.all.stopped, self._left)]
        try:
            await asyncio.wait({serving, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (serving, *ends):
                each.cancel()
            if self._from_client is not None:
                self._from_client.cancel()
            results = await asyncio.gather(
                serving, *([self._from_client] if self._from_client else []), return_exceptions=True
            )
        for error in results:
            if isinstance(error, BaseException) and not isinstance(
                error, asyncio.CancelledError | WebSocketDisconnect
            ):
                await self._fail(error)
                return
        await self._close(_RESTART if self._caller.all.stopping else 1000, "")

    async def _fail(self, error: BaseException) -> None:
        if self._from_client is None:  # not accepted
            raise error
        if isinstance(error, MessageMalformed):
            await self._close(_POLICY, f"cannot read the message: {error}")
        elif isinstance(error, InvalidArgument):
            await self._close(_POLICY, str(error))
        elif isinstance(error, HoldfastError):
            await self._close(_AGAIN, str(error))
        else:
            await self._close(_FAILED, "the server failed")
            raise error

    async def _close(self, code: int, reason: str) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):
            await self._websocket.close(
                code, plain(reason, _REASON).encode()[:_REASON].decode("utf-8", "ignore")
            )

    async def _serve(self) -> None:
        """Rejoin the kernel after each capture, until the front end leaves."""
        attempts = 0
        while attempts < MOST_ATTEMPTS:
            if attempts:
                await asyncio.sleep(PAUSE)
            attempts += 1
            try:
                async with self._links.opened(self._kernel.row.id, self._connect, websocket=True) as stream:
                    async for frame in _frames(stream):
                        guest_client.raise_error(frame)
                        if frame.event == "joined":
                            attempts = 1
                            await self._join(stream, frame)
                        else:
                            await self._hear(frame)
            except (GuestDisconnected, OSError):
                continue
            except SessionError:
                if self._from_client is None or not await self._resumed():
                    raise
                attempts = 0
            finally:
                self._stream = None
        raise GuestDisconnected("cannot continue: the session closes every connection")

    async def _resumed(self) -> bool:
        """Wait while the session is suspended; return whether it runs then.

        Raises:
            HoldfastError: the session was removed, or cannot be woken.
        """
        id_ = self._kernel.row.id
        while True:
            row = await self._caller.brief(lambda _: self._caller.session(id_).row)
            if row.state != "suspended":
                return row.state == "running"
            if lifetime.asleep(row) and not all(each.looks for each in self._unconfirmed.values()):
                await self._caller.brief(lambda hf: waking.wake(hf.context, id_))
            else:
                await asyncio.sleep(AWAY)

    def _connect(self) -> Any:
        """Return a socket on which the session was asked for its kernel; in a thread."""
        session = self._caller.session(self._kernel.row.id)
        line = SessionChannel(self._caller.holdfast().context, lambda: session.row)
        return session_sockets.front_end_socket(
            line, self._kernel.info.name, client=self._client, link=self._link, after=self._at
        )

    async def _join(self, stream: SessionStream, frame: Frame) -> None:
        """Begin, or continue: report the kernel's state, and send unconfirmed messages."""
        if self._from_client is None:
            await self._websocket.accept(V1 if self._binary else None)
            self._from_client = asyncio.create_task(self._read())
            self._from_client.add_done_callback(lambda _: self._left.set())
        if wire_fields.flag(frame, "lost"):
            # The session was taken back to before what this front end has seen: its requests are forgotten.
            self._unconfirmed.clear()
            self._at = None
            await self._say("status", {"execution_state": "restarting"})
        state = wire_fields.text(frame, "state", "idle")
        await self._say("status", {"execution_state": state if state in _STATES else "idle"})
        for request in list(self._unconfirmed.values()):
            stream.writer.write(request.data)
        self._stream = stream
        self._room.set()

    async def _hear(self, frame: Frame) -> None:
        kind = wire_fields.event(frame)
        if kind == "taken":
            self._unconfirmed.pop(wire_fields.integer(frame, "number"), None)
            self._room.set()
        elif kind == "message":
            self._at = wire_fields.integer(frame, "at")
            with suppress(MessageMalformed):
                channel, parts = kernel_messages.unpack(frame.payload)
                await self._show(channel, parts, frame.payload)
            self._table.note_place(self._kernel.id, self._client, self._at)
        elif kind == "gap":
            size = wire_fields.integer(frame, "size")
            text = f"[{size} bytes of output were not kept while this front end was away or behind]\n"
            await self._say("stream", {"name": "stderr", "text": text})

    async def _say(self, kind: str, content: dict[str, Any]) -> None:
        """Send the front end a message of the server's own."""
        header = {"msg_id": secrets.token_hex(16), "msg_type": kind, "username": "holdfast"}
        header |= {"session": self._link, "version": "5.3", "date": kernel_table.written_time(time.time())}
        parts = [kernel_messages.written(each) for each in (header, {}, {}, content)]
        await self._show("iopub", parts, kernel_messages.pack("iopub", parts))

    async def _show(self, channel: str, parts: list[bytes], data: bytes) -> None:
        kernel_messages.header_of(parts)
        if self._binary:
            await self._websocket.send_bytes(data)
            return
        work = partial(legacy_shown, channel, parts)
        found = work() if len(data) <= INLINE else await asyncio.to_thread(work)
        if isinstance(found, str):
            await self._websocket.send_text(found)
        else:
            await self._websocket.send_bytes(found)

    async def _read(self) -> None:
        """Receive messages of the front end until it leaves.

        Raises:
            MessageMalformed: one is not a message.
            WebSocketDisconnect: it has left.
        """
        while True:
            message = await self._websocket.receive()
            if message["type"] != "websocket.receive":
                raise WebSocketDisconnect(message.get("code", 1000))
            given: str | bytes = message["text"] if message.get("text") is not None else message["bytes"]
            await self._send(await self._packed(given))

    async def _packed(self, given: str | bytes) -> bytes:
        if self._binary and isinstance(given, bytes):
            _, parts = kernel_messages.unpack(given)
            kernel_messages.header_of(parts)
            return given
        if len(given) <= INLINE:
            return legacy_read(given)
        return await asyncio.to_thread(legacy_read, given)

    async def _send(self, data: bytes) -> None:
        if len(data) > protocol.MAX_PAYLOAD:
            raise MessageMalformed(f"it has {len(data)} bytes, the limit is {protocol.MAX_PAYLOAD}")
        while len(self._unconfirmed) >= MOST_UNCONFIRMED or (
            sum(len(each.data) for each in self._unconfirmed.values()) + len(data) > MOST_UNCONFIRMED_BYTES
        ):
            self._room.clear()
            await self._room.wait()
        self._number += 1
        encoded = protocol.encode(Frame({"op": "front_end", "number": self._number}, data))
        _, parts = kernel_messages.unpack(data)
        looks = kernel_messages.header_of(parts)["msg_type"] in LOOKS
        self._unconfirmed[self._number] = _FrontMessage(encoded, looks)
        if (stream := self._stream) is not None:
            with suppress(ConnectionError):  # it is sent over the next one
                stream.writer.write(encoded)
                await stream.writer.drain()


async def _frames(stream: SessionStream) -> Any:
    """Yield the frames of a session until it closes the connection.

    Raises:
        ProtocolError: it sends something else.
    """
    reader = FrameReader()
    while data := await stream.reader.read(PIECE):
        try:
            found = reader.feed(data)
        except protocol.FrameError as error:
            raise ProtocolError(f"cannot understand the session: {plain(str(error), 200)}") from error
        for frame in found:
            yield frame


@contextmanager
def counted(table: KernelTable, kernel: str) -> Iterator[None]:
    """Count a front end of a kernel while the block runs."""
    table.connections[kernel] = table.connections.get(kernel, 0) + 1
    try:
        yield
    finally:
        table.connections[kernel] -= 1
        if not table.connections[kernel]:
            del table.connections[kernel]
