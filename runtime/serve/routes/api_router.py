"""How paths of the server are declared: completely, so that the application only has to list them.

FastAPI prepares the routes of a router that is included a second time, at the first request that could be
for any of them. That takes longer than most requests. Knows no path.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute

from holdfast.runtime.serve.answer_forms import PrintableAnswer
from holdfast.runtime.serve.key_rules import permitted


def api_router(**options: Any) -> APIRouter:
    """Return a router of complete routes that check access keys; `options` are the options of `APIRouter`."""
    return APIRouter(
        default_response_class=PrintableAnswer,
        generate_unique_id_function=_operation_id,
        dependencies=[Depends(permitted)],
        **options,
    )


def wire_router(name: str, **options: Any) -> APIRouter:
    """Return a router of another wire's routes, which check access keys too; `name` has wire and part."""
    return APIRouter(
        generate_unique_id_function=lambda route: f"{name}.{route.name}",
        dependencies=[Depends(permitted)],
        **options,
    )


def _operation_id(route: APIRoute) -> str:
    return f"{route.tags[0]}.{route.name}" if route.tags else route.name
