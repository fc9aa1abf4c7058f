"""Paths of the ports of a session: the listening programs, their answers, and links for people."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.responses import Response

from holdfast.base.serving_record import ServingRecord
from holdfast.errors import ServerUnavailable
from holdfast.runtime.api import session_ports
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_insight import PORT_SECONDS
from holdfast.runtime.serve import file_addresses
from holdfast.runtime.serve.answer_forms import ERRORS
from holdfast.runtime.serve.callers import ApiCaller, From
from holdfast.runtime.serve.models.answer_models import ListeningPortAnswer, PreviewAnswer
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.serve.models.session_models import PreviewRequest
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/sessions/{session}/ports", tags=["ports"], responses=ERRORS)
PortNumber = Annotated[int, Path(ge=1, le=65535)]


@router.get("")
async def ports(who: From, session: Ref) -> list[ListeningPortAnswer]:
    """Return the ports at which a program listens, with its answer within two seconds."""
    found = await who.in_session(session, lambda found: found.ports())
    return [ListeningPortAnswer(**each.as_dict()) for each in found]


@router.get("/{port}")
async def port(who: From, session: Ref, port: PortNumber, speak: bool = True) -> dict[str, Any]:
    """Return the listener at a port, and whether it answers."""
    return await who.in_session(session, lambda found: found.port(port, speak=speak).as_dict())


@router.get("/{port}/wait")
async def wait_port(
    who: From,
    session: Ref,
    port: PortNumber,
    patience: Annotated[float, Query(ge=0, le=3600)] = PORT_SECONDS,
) -> dict[str, Any]:
    """Wait until a port accepts connections, and return its listener."""
    return await who.patiently(
        session, patience, lambda found, patience: found.wait_port(port, patience=patience).as_dict()
    )


@router.post("/{port}/preview")
async def preview(who: From, session: Ref, port: PortNumber, body: PreviewRequest) -> PreviewAnswer:
    """Return a link by which a browser sees the server at a port, until it ends or is revoked."""
    server = _reached(who, port)

    def work(found: Session) -> dict[str, Any]:
        store = who.holdfast().store
        made = session_ports.link(
            store, found.row, port, server, public=body.public, seconds=float(body.seconds)
        )
        return made.as_dict()

    return PreviewAnswer(**await who.in_session(session, work))


@router.delete("/{port}/preview", status_code=204)
async def revoke_preview(who: From, session: Ref, port: PortNumber) -> Response:
    """End all links of a port, and make it private."""
    await who.in_session(session, lambda found: found.revoke_preview(port))
    return Response(status_code=204)


def _reached(who: ApiCaller, port: int) -> ServingRecord:
    """Return this server, with the address by which the caller's browser reaches it as the caller does."""
    server, base = who.all.serving, who.request.url
    if server is None or not server.previews:
        raise ServerUnavailable(
            f"cannot preview port {port}: browsers do not reach this server",
            hint="`holdfast serve` on a port of loopback, or with --preview-url, makes links",
        )
    if not server.previews.startswith("http://localhost"):
        return server
    return replace(server, previews=f"{base.scheme}://{file_addresses.named_host(base.netloc)}")
