"""Paths of the server itself: whether it lives, its figures, its version."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import Path, Request, WebSocket, WebSocketDisconnect
from starlette.responses import Response

from holdfast.base.version import VERSION
from holdfast.errors import SessionNotFound
from holdfast.runtime.serve import route_target, server_metrics
from holdfast.runtime.serve.answer_forms import ERRORS, NODE_HEADER
from holdfast.runtime.serve.callers import ACTOR, ApiCaller, From, chosen_actor
from holdfast.runtime.serve.channels.channel_connection import ChannelConnection
from holdfast.runtime.serve.models.base_models import AnswerBody
from holdfast.runtime.serve.routes.api_router import api_router

RequestId = Annotated[str, Path(pattern=r"^[A-Za-z0-9-]{16,64}$", description="As the client has sent it.")]
router = api_router(tags=["server"], responses={401: ERRORS[401], 421: ERRORS[421]})


class HealthAnswer(AnswerBody):
    """The server answers; `stopping` once it refuses calls that wait."""

    status: Literal["ok", "stopping"]
    version: str


@router.get("/health")
async def health(request: Request) -> HealthAnswer:
    """Answer immediately, whatever the load; asks neither sessions nor the engine."""
    stopping = request.app.state.callers.stopping
    return HealthAnswer(status="stopping" if stopping else "ok", version=VERSION)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Return the server's figures for Prometheus."""
    return Response(request.app.state.callers.metrics.text(), headers={"Content-Type": server_metrics.TYPE})


waits = api_router(prefix="/v1/waits", tags=["server"], responses=ERRORS)


@waits.delete("/{request}", status_code=204)
async def end_wait(who: From, request: RequestId) -> Response:
    """End the wait of a request, by its `X-Request-Id`: it is answered as if its patience had ended.

    A request can limit its waiting beforehand, by a header `Holdfast-Patience` with seconds.
    """
    who.all.end_wait(request)
    return Response(status_code=204)


cluster = api_router(prefix="/v1/route", tags=["cluster"], responses=ERRORS)


class RouteAnswer(AnswerBody):
    """The node that requests for a session go to, or any node without a session; `address` is null while
    there is none, and `reason` says why.
    """

    session: str | None
    name: str | None
    state: str
    node: str | None
    address: str | None
    epoch: int
    reason: str


@cluster.get("")
async def route(who: From, response: Response, session: str | None = None) -> RouteAnswer:
    """Return the node of a session, also as the header `Holdfast-Node`, for a reverse proxy.

    `session` names it; without that, `X-Original-URI`, `X-Original-Host` and `X-Original-Sandbox` say what
    the proxy was asked for. Waits for a while for a session that is being started; one without a node leads
    to this one, which says why, and wakes it for those whose credential is valid.
    """
    places = who.all.places
    ref = session or route_target.session_of(who.request.headers)
    own = places.address if places is not None else ""
    response.headers[NODE_HEADER] = own
    here = RouteAnswer(session=None, name=None, state="any", node=None, address=own, epoch=0, reason="")
    if places is None or not ref:
        return here
    try:
        found = await who.all.waiting.run(lambda: places.reachable(ref), ref)
    except SessionNotFound:
        if session:
            raise
        return here  # which node says so does not matter
    if found.address:
        response.headers[NODE_HEADER] = found.address
    return RouteAnswer(
        session=found.session,
        name=found.name,
        state=found.state,
        node=found.node,
        address=found.address,
        epoch=found.epoch,
        reason=found.reason,
    )


sockets = api_router()
PROTOCOL = "holdfast.v1"


@sockets.websocket("/v1/channels")
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
