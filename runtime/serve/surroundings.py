"""What surrounds every request: its id, its log, its figures, its limits."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import JSONResponse, Response

from holdfast.base.request_id import begin_request
from holdfast.base.text import plain
from holdfast.runtime.http_doors.admission import App, Receive, Scope, Send
from holdfast.runtime.http_doors.request_limits import Paths, RequestRate, limited
from holdfast.runtime.serve import error_answers
from holdfast.runtime.serve.server_metrics import ServerMetrics

REQUEST_ID = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
logger = logging.getLogger("holdfast.serve")


class Surrounded:
    """An application whose requests have all of that.

    `streamed` are methods and ends of paths whose bodies may have any size, `typed` those that may take any
    time.
    """

    def __init__(
        self,
        app: App,
        rate: RequestRate,
        metrics: ServerMetrics,
        streamed: Paths,
        typed: Paths = frozenset(),
    ) -> None:
        self._limited = limited(app, streamed, typed)
        self._rate = rate
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, unless there are too many."""
        if scope["type"] != "http":
            await self._limited(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"")
        id_ = given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
        begin_request(id_)
        began, status, began_answer = time.monotonic(), 500, False

        async def named(message: MutableMapping[str, Any]) -> None:
            nonlocal status, began_answer
            if message["type"] == "http.response.start":
                status, began_answer = message["status"], True
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, id_.encode())]
            await send(message)

        try:
            if (seconds := self._rate.refused()) is not None:
                await _too_many(seconds)(scope, receive, named)
            else:
                await self._limited(scope, receive, named)
        except Exception as error:
            if not began_answer:
                raise
            logger.error(json.dumps({"request": id_, "cut_short": plain(str(error), 400)}))
        finally:
            self._note(scope, id_, status, time.monotonic() - began)

    def _note(self, scope: Scope, id_: str, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "none")
        self._metrics.answered(scope["method"], path, status, seconds)
        told = {
            "request": id_,
            "method": scope["method"],
            "path": plain(scope["path"], 200),
            "status": status,
            "seconds": round(seconds, 4),
        }
        logger.info(json.dumps(told))


def _too_many(seconds: float) -> Response:
    body = error_answers.body(
        "too_many_requests", "cannot answer: too many requests", "send fewer in a second"
    )
    return JSONResponse(body, 429, headers={"Retry-After": str(max(1, round(seconds)))})
