"""The path by which ssh reaches a session: a WebSocket that carries one connection to its server of ssh.

The client names its public key first, and learns the session's; from then on messages are bytes both ways.
A text at the end says why the session has ended the connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress

from fastapi import WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.guest_rpc import session_sockets
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.callers import ACTOR, ApiCaller, Callers, chosen_actor
from holdfast.runtime.serve.routes.api_router import api_router
from holdfast.runtime.serve.session_links import SessionLinks, SessionStream
from holdfast.runtime.sessions import health, ssh_access

sockets = api_router()
PIECE = 64 << 10
FIRST_SECONDS = 10.0
MOST_FIRST = 1000


@sockets.websocket("/v1/sessions/{session}/ssh")
async def ssh(websocket: WebSocket) -> None:
    """Carry one connection of ssh until either end leaves, or the server stops."""
    callers: Callers = websocket.app.state.callers
    caller = ApiCaller(websocket, callers, chosen_actor(websocket, ACTOR))
    began, ref = time.monotonic(), websocket.path_params["session"]
    status = 200
    await websocket.accept()
    try:
        await _carried(websocket, caller, ref)
    except WebSocketDisconnect:
        pass
    except HoldfastError as error:
        status = answer_forms.status_of(error)
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.send_text(json.dumps(answer_forms.body_of(error)))
    finally:
        caller.audit("ssh", ref, time.monotonic() - began, status)
    if websocket.client_state is WebSocketState.CONNECTED:
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close()


async def _carried(websocket: WebSocket, caller: ApiCaller, ref: str) -> None:
    key = await _client_key(websocket)
    found = await caller.in_session(ref, lambda session: session)
    store = caller.holdfast().store
    private, public = await caller.brief(lambda _: ssh_access.host_key(store, found.id))
    links: SessionLinks = caller.all.links
    async with links.opened(
        found.id, lambda: session_sockets.ssh_socket(found._line, private, key), websocket=True
    ) as stream:
        await websocket.send_text(json.dumps({"host_key": public, "session": found.id}))
        typing = asyncio.ensure_future(_sent(websocket, stream))
        showing = asyncio.ensure_future(_shown(websocket, stream))
        ends = {typing, showing, asyncio.ensure_future(caller.all.stopped.wait())}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
    if not showing.cancelled() and showing.exception() is None:
        why = await caller.in_session(ref, lambda session: health.why_cut(session._context, session.row))
        await websocket.send_text(json.dumps({"ended": why}))


async def _client_key(websocket: WebSocket) -> str:
    """Return the public key that the client names in its first message.

    Raises:
        InvalidArgument: it does not name one, or not in time.
    """
    try:
        async with asyncio.timeout(FIRST_SECONDS):
            told = await websocket.receive_text()
        found = json.loads(told) if len(told) <= MOST_FIRST else None
    except (KeyError, ValueError, RecursionError, TimeoutError):  # KeyError: a frame of bytes
        found = None
    key = found.get("client_key") if isinstance(found, dict) else None
    if not isinstance(key, str):
        raise InvalidArgument("cannot connect by ssh: the client did not name its public key")
    return ssh_access.checked_key(key)


async def _sent(websocket: WebSocket, stream: SessionStream) -> None:
    """Pass on the bytes of the client, until it leaves."""
    with suppress(WebSocketDisconnect, KeyError, OSError):
        while True:
            stream.writer.write(await websocket.receive_bytes())
            await stream.writer.drain()


async def _shown(websocket: WebSocket, stream: SessionStream) -> None:
    """Pass on the bytes of the session's server, until that ends the connection."""
    with suppress(OSError):
        while data := await stream.reader.read(PIECE):
            await websocket.send_bytes(data)
