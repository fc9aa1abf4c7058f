"""The path of WebSockets."""

from __future__ import annotations

import asyncio

from fastapi import WebSocket, WebSocketDisconnect

from holdfast.runtime.serve.callers import ACTOR, ApiCaller, chosen_actor
from holdfast.runtime.serve.channels.channel_connection import ChannelConnection
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router()
PROTOCOL = "holdfast.v1"


@router.websocket("/v1/channels")
async def channels(websocket: WebSocket) -> None:
    """Serve channels until the client leaves."""
    offered = websocket.headers.get("sec-websocket-protocol", "")
    await websocket.accept(PROTOCOL if PROTOCOL in {each.strip() for each in offered.split(",")} else None)
    caller = ApiCaller(websocket, websocket.app.state.callers, chosen_actor(websocket, ACTOR))
    connection = ChannelConnection(caller)
    metrics = websocket.app.state.callers.metrics
    sending = asyncio.create_task(connection.send_all(websocket.send_text))
    try:
        while True:
            message = await websocket.receive_text()
            await connection.hear(message)
            metrics.channels.set(connection.count)
    except (WebSocketDisconnect, KeyError):  # KeyError: a frame of bytes
        pass
    finally:
        connection.leave()
        sending.cancel()
