"""The figures of a server for Prometheus, in a registry of their own. Labels do not name sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)


class ServerMetrics:
    """The figures of one server. `waiting` and `brief` return how many calls of each kind run."""

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
        self.teams: Callable[[], Mapping[str, ServerMetrics]] = dict
        """Returns the figures of teams by their names; the application of teams sets it."""

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request; `path` is the template of its path, so that there are few."""
        self._requests.labels(method, path, str(status)).inc()
        self._seconds.labels(method, path).observe(seconds)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text form; figures of teams have their names as a label."""
        teams = self.teams()
        return generate_latest(_TeamFigures(self, teams) if teams else self._registry)

    def families(self) -> Iterable[Metric]:
        """Return all figures."""
        return self._registry.collect()


class _TeamFigures(Collector):
    """The figures of a server and of its teams; the label is empty for its own home."""

    def __init__(self, own: ServerMetrics, teams: Mapping[str, ServerMetrics]) -> None:
        self._all = {"": own, **teams}

    def collect(self) -> Iterable[Metric]:
        """Return all families, each once."""
        found: dict[str, Metric] = {}
        for team, figures in self._all.items():
            for family in figures.families():
                kept = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                kept.samples += [
                    each._replace(labels={**each.labels, "team": team}) for each in family.samples
                ]
        return found.values()
