"""The figures of a run as rows with their limits.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from bench.row import Row
from bench.server_load.load_run import Found
from bench.server_load.loaded_server import Sample
from bench.stats import Series, Target, Unit

FAMILY = "many clients of one server"
WHO = "Holdfast"
FLAT = Target(1.05, "ratio", "memory does not grow with time")
IDLE = Target(0.02, "value", "2 % of a processor")
HEALTH = Target(0.05, "value", "whoever asks whether it lives must not take it for dead")
NONE = Target(0.0, "value", "nothing is lost, doubled, or unknown without need")
SHORT = 8
"""Samples of memory without which nothing is said of its growth."""


def rows(found: Found) -> Iterator[Row]:
    """Yield a row for each figure."""
    yield from _memory(found.samples)
    if found.idle_share is not None:
        share = _series((found.idle_share,))
        yield Row(FAMILY, "processor time in each second while all idle", share, target=IDLE)
        yield Row(FAMILY, "threads while all idle", _series((found.idle_threads,), "count"))
    if found.health:
        answers = _series(found.health)
        yield Row(FAMILY, "/health", answers)
        yield Row(FAMILY, "/health", answers, statistic="p99", target=HEALTH)
    outages = [each.answered - each.killed for each in found.outages]
    if outages:
        yield Row(FAMILY, "from a kill to the next answer", _series(outages))
    for kind, seconds in sorted(_seconds(found).items()):
        yield Row(FAMILY, f"an act of `{kind}`", _series(seconds))
    yield from _told(found)


def _memory(samples: Sequence[Sample]) -> Iterator[Row]:
    """Compare the second quarter of the last life with its last one: in the first, caches fill."""
    if not samples:
        return
    last = [each for each in samples if each.life == samples[-1].life]
    quarter = len(last) // 4
    if len(last) >= SHORT:
        before = Series("in the second quarter", "bytes", _memories(last[quarter : 2 * quarter]))
        after = Series(WHO, "bytes", _memories(last[-quarter:]))
        yield Row(FAMILY, "memory in the last quarter of a life", after, baseline=before, target=FLAT)
    yield Row(FAMILY, "memory, at its most", _series((max(_memories(samples)),), "bytes"))
    yield Row(FAMILY, "threads, at their most", _series((max(each.threads for each in samples),), "count"))
    most = max(each.descriptors for each in samples)
    yield Row(FAMILY, "descriptors, at their most", _series((most,), "count"))
    busy = [
        (later.spent - earlier.spent) / (later.at - earlier.at)
        for earlier, later in pairwise(samples)
        if later.life == earlier.life and later.at > earlier.at
    ]
    if busy:
        yield Row(FAMILY, "processor time in each second", _series(busy))


def _told(found: Found) -> Iterator[Row]:
    outcomes = Counter(act.outcome for act in found.acts)
    for name, of in (("acknowledged", "done"), ("outcome unknown", "unknown")):
        yield Row(FAMILY, f"acts, {name}", _series((outcomes[of],), "count"))  # type: ignore[index]
    faults = {
        "acts lost": found.compared.lost,
        "acts doubled, or nobody's": [*found.compared.doubled, *found.compared.unasked],
        "outputs with a loss or a double": found.compared.output,
        "unknown without need": found.compared.unfounded,
        "acts that failed": found.compared.failed,
        "failures in the server's log": found.errors,
    }
    for name, those in faults.items():
        note = "; ".join(those[:5])
        yield Row(FAMILY, name, _series((len(those),), "count"), target=NONE, note=note)


def _seconds(found: Found) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {}
    for act in found.acts:
        if act.outcome == "done" and not any(each.cut(act) for each in found.outages):
            taken.setdefault(act.kind, []).append(act.ended - act.began)
    return taken


def _memories(samples: Sequence[Sample]) -> tuple[float, ...]:
    return tuple(float(each.memory) for each in samples)


def _series(samples: Sequence[float], unit: Unit = "s") -> Series:
    return Series(WHO, unit, tuple(samples))
