"""The simulation of `bench.cluster_simulation`, small: real time, a real database, and a referee."""

from __future__ import annotations

import pytest
from bench.cluster_simulation import simulate
from tests.machines.postgres import Postgres
from tests.runtime.cluster.conftest import emptied

from holdfast.runtime.cluster.cluster_rows import LeaseTerms


def test_after_losing_a_tenth_of_the_agents_each_session_runs_once(postgres: Postgres) -> None:
    """Killed and cut off in one moment: all are placed again, and at each moment at most one copy ran."""
    emptied(postgres.dsn)
    figures = simulate(postgres.dsn, 600, 40, LeaseTerms(ttl_s=4.0, beat_s=1.0, margin_s=1.0))
    assert figures.hit_sessions > 0
    assert (figures.twice, figures.nowhere, figures.told) == (0, 0, 0)


@pytest.mark.thorough
def test_the_referee_sees_nodes_that_do_not_freeze(postgres: Postgres) -> None:
    """The control: without the freeze at the end of a lease, sessions of cut-off nodes run twice."""
    emptied(postgres.dsn)
    terms = LeaseTerms(ttl_s=4.0, beat_s=1.0, margin_s=1.0)
    assert simulate(postgres.dsn, 200, 20, terms, freezes=False).twice > 0
