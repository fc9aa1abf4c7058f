"""The verbs of a cluster, run as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.machines.postgres import Postgres

from holdfast.runtime.cluster.cluster_rows import NodeOffer, SessionOrder
from holdfast.runtime.cluster.cluster_store import ClusterStore


def run(dsn: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOLDFAST_CLUSTER": dsn}
    command = [sys.executable, "-m", "holdfast", "cluster", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_cluster_is_made_shown_and_drained(postgres: Postgres, store: ClusterStore) -> None:
    """Each verb answers people and programs, and names what is missing."""
    assert run("", "nodes").stderr.startswith("holdfast: cannot find the cluster")
    assert json.loads(run(postgres.dsn, "init", "--ttl", "20", "--json").stdout)["ttl_s"] == 20.0
    store.register(NodeOffer("rack1", "boot", "http://rack1", 8 << 30))
    store.place(SessionOrder("id1", "work", 1 << 30))
    assert "rack1" in run(postgres.dsn, "nodes").stdout
    [session] = json.loads(run(postgres.dsn, "ls", "--json").stdout)
    assert (session["name"], session["state"], session["node"]) == ("work", "starting", "rack1")
    assert "work is starting on rack1" in run(postgres.dsn, "wake", "work").stderr
    assert "cannot find the session 'none'" in run(postgres.dsn, "wake", "none").stderr
    assert "hands over 1 session;" in run(postgres.dsn, "drain", "rack1").stderr
    assert store.nodes()[0].state == "draining"
    assert "cannot find the node 'rack2'" in run(postgres.dsn, "drain", "rack2").stderr
