"""Paths of the server itself: whether it lives, its figures, its version."""

from __future__ import annotations

from typing import Literal

from fastapi import Request
from starlette.responses import Response

from holdfast.base.version import VERSION
from holdfast.runtime.serve import server_metrics
from holdfast.runtime.serve.answers import ERRORS
from holdfast.runtime.serve.models.base_models import AnswerBody
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(tags=["server"], responses={401: ERRORS[401], 421: ERRORS[421]})


class HealthAnswer(AnswerBody):
    """The server answers; `stopping` once it takes no more calls that wait."""

    status: Literal["ok", "stopping"]
    version: str


@router.get("/health")
async def health(request: Request) -> HealthAnswer:
    """Answer at once, whatever else is being done; asks neither sessions nor the engine."""
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
