"""The family of the cluster: its curve, and what routing costs, measured for a moment with real parts."""

from __future__ import annotations

from bench.families import cluster
from bench.row import Row
from bench.stats import Series

from bench import cluster_routing


def test_a_curve_has_the_seconds_of_each_size() -> None:
    """Rows of other families have none."""
    row = Row(
        cluster.FAMILY,
        "one placement",
        Series("Holdfast", "s", (0.004,)),
        note="over the numbers of sessions (500, 2500): 0.0020, 0.0040",
    )
    other = Row("scale", "one placement", Series("Holdfast", "s", (0.1,)), note=row.note)
    assert cluster.curves([row, other]) == ((500, 2500), {"one placement": [0.002, 0.004]})
    assert cluster.curves([other]) == ((), {})


def test_the_cost_of_routing_compares_the_shipped_file_with_itself() -> None:
    """Without the question for the way, and with as many requests."""
    found = cluster_routing.measured(500)
    assert found.requests == 500
    assert min(found.fixed_p50_ms, found.routed_p50_ms, found.question_processor_us) > 0
    assert round(found.routed_p50_ms - found.fixed_p50_ms, 2) == round(found.added_p50_ms, 2)
