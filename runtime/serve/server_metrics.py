"""Figures of the server for Prometheus, in a registry of its own. Names of sessions are in no label."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

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
