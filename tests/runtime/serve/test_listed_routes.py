"""The applications are fully prepared when their first request comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from holdfast.base.home import Home
from holdfast.runtime.e2b import e2b_app
from holdfast.runtime.e2b.sandbox_access import SandboxTokens, Scopes
from holdfast.runtime.operations.context import no_progress
from holdfast.runtime.serve import server_app
from holdfast.runtime.serve.answer_forms import PrintableAnswer
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.lifetime_task import LifetimeTask
from holdfast.runtime.swerex import swerex_app
from holdfast.runtime.swerex.swerex_app import AsciiAnswer


def _wire(callers: Callers) -> Scopes:
    return e2b_app.wire(
        callers, SandboxTokens("0123456789abcdef"), LifetimeTask(callers), e2b_app.session_ids(callers)
    )


def _control(callers: Callers) -> FastAPI:
    return cast("FastAPI", _wire(callers).control)


def _sandbox(callers: Callers) -> FastAPI:
    return cast("FastAPI", _wire(callers).sandbox)


def _made(make: Callable[[Callers], FastAPI], folder: Path) -> FastAPI:
    async def made() -> FastAPI:
        return make(Callers(Home(folder), no_progress))

    return asyncio.run(made())


@pytest.mark.parametrize("make", [server_app.inner, _control, _sandbox, swerex_app.wire])
def test_each_route_is_listed_as_it_was_declared(make: Callable[[Callers], FastAPI], tmp_path: Path) -> None:
    """A route included in a different way is prepared when it is asked for the first time."""
    routes = _made(make, tmp_path).router.routes
    assert [each for each in routes if not isinstance(each, Route | WebSocketRoute)] == []
    assert sum(isinstance(each, APIRoute) for each in routes) >= 5


@pytest.mark.parametrize("make", [server_app.inner, swerex_app.wire])
def test_no_route_answers_in_plain_json(make: Callable[[Callers], FastAPI], tmp_path: Path) -> None:
    """Texts that are not UTF-8 could not be sent in it: each wire has a form of its own."""
    routes = [each for each in _made(make, tmp_path).router.routes if isinstance(each, APIRoute)]
    classes = {getattr(each.response_class, "value", each.response_class) for each in routes}
    assert JSONResponse not in classes
    assert classes & {PrintableAnswer, AsciiAnswer}
