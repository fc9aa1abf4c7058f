"""The choice of nodes for sessions, from a reading of all nodes that a store's threads share."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from random import Random

from holdfast.base.value_classes import replace
from holdfast.runtime.cluster import cluster_reign, row_reading
from holdfast.runtime.cluster.cluster_database import Cursor
from holdfast.runtime.cluster.cluster_rows import NodeRow
from holdfast.runtime.cluster.placement import Choice, FitnessTable, choose
from holdfast.snapshots.fitness import Here, Needs

_READING_S = 0.5
"""How old a reading of all nodes can be that one is chosen from; its row is locked and compared then."""


class NodeChooser:
    """Chooses nodes from a reading that is half a second old at most, for any thread."""

    def __init__(self) -> None:
        self._random = Random()  # noqa: S311 - spreads sessions over nodes
        self._fitness = FitnessTable()
        self._lock = threading.Lock()
        self._read: tuple[float, float, list[NodeRow]] = (float("-inf"), 0.0, [])

    def __call__(
        self,
        cursor: Cursor,
        needs: Needs,
        memory_bytes: int,
        avoid: Collection[str],
        origin: str | None,
        *,
        present: bool,
    ) -> Choice:
        """Return the nodes that can take a session, best first; `present` asks for a new reading."""
        with self._lock:
            read_at, fresh_s, nodes = self._read
            if present or time.monotonic() - read_at > _READING_S:
                fresh_s = cluster_reign.MISSED_BEATS * cluster_reign.read(cursor)["beat_s"]
                nodes = self._nodes(cursor)
                self._read = (time.monotonic(), fresh_s, nodes)
            return choose(
                nodes,
                self._fitness,
                needs,
                memory_bytes,
                self._random,
                fresh_s=fresh_s,
                avoid=avoid,
                origin=origin,
            )

    def took(self, node: str, memory_bytes: int) -> None:
        """Count a session that a node was given, until the next reading: the next ones go elsewhere."""
        with self._lock:
            read_at, fresh_s, nodes = self._read
            counted = [
                replace(each, reserved_bytes=each.reserved_bytes + memory_bytes, sessions=each.sessions + 1)
                if each.id == node
                else each
                for each in nodes
            ]
            self._read = (read_at, fresh_s, counted)

    def _nodes(self, cursor: Cursor) -> list[NodeRow]:
        nodes = [row_reading.node(row) for row in cursor.execute(row_reading.NODES).fetchall()]
        missing = sorted({node.machine for node in nodes if self._fitness.lacks(node.machine)})
        for row in cursor.execute(
            "SELECT digest, here FROM holdfast_machines WHERE digest = ANY(%s)", (missing,)
        ).fetchall():
            self._fitness.learn(row["digest"], Here.model_validate(row["here"]))
        return nodes
