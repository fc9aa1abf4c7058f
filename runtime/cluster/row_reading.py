"""Rows of the cluster's tables, read into records.  Has the queries that whole records come from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from holdfast.runtime.cluster.cluster_rows import (
    ClusterSession,
    DurableCopy,
    LeaseTerms,
    NodeRow,
    Renewal,
    SessionGrant,
)
from holdfast.snapshots.fitness import Here, Needs

Row = Mapping[str, Any]

CLUSTER = """
SELECT ttl_s, beat_s, margin_s, reign, version, timeline,
    (extract(epoch FROM clock_timestamp()) - extract(epoch FROM reign_began))::float8 AS reign_age_s,
    left(pg_walfile_name(pg_current_wal_lsn()), 8) AS present_timeline
FROM holdfast_cluster
"""
NODES = """
SELECT id, incarnation, beat, state, boot, address, memory_bytes, reserved_bytes, sessions, most_sessions,
    machine, version, extract(epoch FROM clock_timestamp() - seen)::float8 AS seen_s
FROM holdfast_nodes
"""
SESSIONS = """
SELECT s.id, s.name, s.state, s.node, s.last_node, s.taken, s.epoch, s.ran, s.memory_bytes, s.options,
    s.durable, s.needs, s.reason, s.failed_nodes, s.copy_number, s.recovery,
    c.epoch AS copy_epoch, c.snapshot, c.reference, c.journal_seq, c.size_bytes, c.needs AS copy_needs,
    extract(epoch FROM clock_timestamp() - c.captured)::float8 AS copy_age_s
FROM holdfast_sessions s LEFT JOIN holdfast_copies c ON c.session = s.id
"""
GRANTS = """
SELECT s.id, s.name, s.state, s.epoch, s.memory_bytes, s.durable, s.copy_number,
    CASE WHEN s.state = 'starting' THEN s.options END AS options,
    CASE WHEN s.state = 'starting' THEN s.recovery END AS recovery,
    c.epoch AS copy_epoch, c.snapshot, c.reference, c.journal_seq, c.size_bytes, c.needs AS copy_needs,
    extract(epoch FROM clock_timestamp() - c.captured)::float8 AS copy_age_s
FROM holdfast_sessions s LEFT JOIN holdfast_copies c ON c.session = s.id AND s.state = 'starting'
WHERE s.node = %s
"""


def terms(row: Row) -> LeaseTerms:
    """Return the times of a row of CLUSTER."""
    return LeaseTerms(row["ttl_s"], row["beat_s"], row["margin_s"])


def is_settled(row: Row) -> bool:
    """Return whether rows can be trusted: no holder's report can correct them any more."""
    return bool(row["reign_age_s"] >= row["ttl_s"] + row["margin_s"])


def node(row: Row) -> NodeRow:
    """Return the record of a row of NODES."""
    return NodeRow(**row)


def copy(row: Row) -> DurableCopy | None:
    """Return the copy in a row of SESSIONS or GRANTS."""
    if row["reference"] is None:
        return None
    return DurableCopy(
        session=row["id"],
        epoch=row["copy_epoch"],
        number=row["copy_number"],
        snapshot=row["snapshot"],
        reference=row["reference"],
        journal_seq=row["journal_seq"],
        size_bytes=row["size_bytes"],
        needs=Needs.model_validate(row["copy_needs"]),
        captured_age_s=row["copy_age_s"],
    )


def session(row: Row) -> ClusterSession:
    """Return the record of a row of SESSIONS."""
    return ClusterSession(
        id=row["id"],
        name=row["name"],
        state=row["state"],
        node=row["node"],
        last_node=row["last_node"],
        epoch=row["epoch"],
        memory_bytes=row["memory_bytes"],
        options=row["options"],
        durable=row["durable"],
        reason=row["reason"],
        attempts=len(row["failed_nodes"]),
        copy=copy(row),
        durable_age_s=row["copy_age_s"],
    )


def grant(row: Row) -> SessionGrant:
    """Return the record of a row of GRANTS."""
    return SessionGrant(
        session=row["id"],
        name=row["name"],
        epoch=row["epoch"],
        started=row["state"] == "running",
        memory_bytes=row["memory_bytes"],
        durable=row["durable"],
        copy_number=row["copy_number"],
        options=row["options"] or {},
        copy=copy(row),
        recovery=row["recovery"],
    )


def renewal(cluster: Row, beat: int, state: Any, grants: list[SessionGrant], unknown: list[str]) -> Renewal:
    """Return the answer to a renewal."""
    return Renewal(
        beat=beat,
        reign=cluster["reign"],
        reign_age_s=cluster["reign_age_s"],
        state=state,
        terms=terms(cluster),
        grants=tuple(grants),
        unknown=tuple(unknown),
    )


def machine_digest(here: Here) -> str:
    """Return the key of a machine's facts: nodes of one kind share them."""
    return hashlib.sha256(here.model_dump_json().encode()).hexdigest()
