"""One PostgreSQL for the tests of a module, and a store with empty tables for each test."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from tests.machines.postgres import Postgres

from holdfast.runtime.cluster.cluster_store import ClusterStore

TABLES = ("cluster", "machines", "nodes", "sessions", "copies", "notes", "events")


def emptied(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        made = connection.execute("SELECT to_regclass('holdfast_cluster')").fetchone()
        if made != (None,):
            connection.execute(("TRUNCATE " + ", ".join(f"holdfast_{table}" for table in TABLES)).encode())


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def store(postgres: Postgres) -> Iterator[ClusterStore]:
    emptied(postgres.dsn)
    opened = ClusterStore(postgres.dsn)
    opened.init()
    yield opened
    opened.close()
