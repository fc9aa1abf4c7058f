"""Surroundings of every request: its id, its log, the server's figures, the limit of requests in a time.

Figures are for Prometheus, in a registry of their own; names of sessions are in no label.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from holdfast.base.request_id import begin_request
from holdfast.base.text import plain
from holdfast.runtime.http_doors.body_limits import Paths, limited
from holdfast.runtime.http_doors.door_guard import App, Receive, Scope, Send
from holdfast.runtime.serve import answer_forms


class RequestRate:
    """At most `rate` requests a second in the long run, and `burst` at once; 0 is any number."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    def refused(self) -> float | None:
        """Count a request; return None if it may be answered, or the seconds until one may."""
        if self._rate <= 0:
            return None
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return None
        return (1 - self._left) / self._rate


TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)


class ServerMetrics:
    """What one server counts. `waiting` and `brief` return how many calls of each kind run."""

    def __init__(self, waiting: Callable[[], float], brief: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "holdfast_requests", "Requests answered.", ("method", "path", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "holdfast_request_seconds",
            "Time until the last byte of an answer.",
            ("method", "path"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        running = Gauge("holdfast_calls", "Calls that run now.", ("kind",), registry=self._registry)
        running.labels("waiting").set_function(waiting)
        running.labels("brief").set_function(brief)
        self.channels = Gauge("holdfast_channels", "Open channels of WebSockets.", registry=self._registry)

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request; `path` is the template of its path, so that there are few."""
        self._requests.labels(method, path, str(status)).inc()
        self._seconds.labels(method, path).observe(seconds)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text form."""
        return generate_latest(self._registry)


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
    body = answer_forms.body(
        "too_many_requests", "cannot answer: too many requests", "send fewer in a second"
    )
    return JSONResponse(body, 429, headers={"Retry-After": str(max(1, round(seconds)))})
