"""Nodes in the database: registered, renewed, declared lost.  Functions within a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from holdfast.base.text import plain
from holdfast.errors import ClusterError, LeaseLost, NodeTaken
from holdfast.runtime.cluster import cluster_reign, row_reading, session_transitions
from holdfast.runtime.cluster.cluster_database import Cursor
from holdfast.runtime.cluster.cluster_rows import Held, NodeOffer, NodeRow, NodeTicket, Renewal, Sighting


def register(cursor: Cursor, offer: NodeOffer) -> NodeTicket:
    """Make a node ready under a new incarnation."""
    digest = row_reading.machine_digest(offer.here)
    terms = row_reading.terms(cluster_reign.read(cursor))
    cursor.execute(
        "INSERT INTO holdfast_machines (digest, here) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        (digest, Jsonb(offer.here.model_dump(mode="json"))),
    )
    cursor.execute(
        "INSERT INTO holdfast_nodes (id, incarnation, state, boot, address, memory_bytes, "
        "most_sessions, machine, version, seen) "
        "VALUES (%s, 0, 'lost', %s, '', 0, 0, %s, '', clock_timestamp()) ON CONFLICT DO NOTHING",
        (offer.id, offer.boot, digest),
    )
    # Sessions are locked before nodes, here as everywhere.
    theirs = cursor.execute(
        row_reading.SESSIONS + "WHERE s.node = %s ORDER BY s.id FOR NO KEY UPDATE OF s", (offer.id,)
    ).fetchall()
    before = cursor.execute(row_reading.NODES + "WHERE id = %s FOR NO KEY UPDATE", (offer.id,)).fetchone()
    assert before is not None
    if before["boot"] != offer.boot:
        if before["state"] != "lost":
            raise NodeTaken(
                f"cannot register {offer.id}: a machine of another boot has this name, and answered "
                f"{max(0.0, before['seen_s']):.0f} s ago",
                hint="wait until it is lost, or name this machine differently",
            )
        for row in theirs:
            why = f"{offer.id} was restarted"
            session_transitions.take_from(cursor, row, terms.ttl_s, why, returns=False)
    made = cursor.execute(
        "UPDATE holdfast_nodes SET incarnation = incarnation + 1, state = 'ready', boot = %s, "
        "address = %s, memory_bytes = %s, most_sessions = %s, machine = %s, version = %s, "
        "seen = clock_timestamp() WHERE id = %s RETURNING incarnation",
        (
            offer.boot,
            offer.address,
            offer.memory_bytes,
            offer.most_sessions,
            digest,
            offer.version,
            offer.id,
        ),
    ).fetchone()
    assert made is not None
    return NodeTicket(offer.id, made["incarnation"])


def renew(cursor: Cursor, ticket: NodeTicket, held: Sequence[Held], beat: int, reign: int) -> Renewal:
    """Renew a lease, and return the sessions that the node can run."""
    cluster = cluster_reign.read(cursor)
    other = session_transitions.mismatched(cursor, ticket.node, held) if held else set[str]()
    row = session_transitions.valid_node(cursor, ticket)
    if row is None:
        raise LeaseLost(f"cannot renew the lease of {ticket.node}: it was declared lost, or replaced")
    forgot = reign > cluster["reign"] or (reign == cluster["reign"] and beat > row["beat"])
    if forgot or cluster["timeline"] != cluster["present_timeline"]:
        cluster = cluster_reign.begin(cursor, cluster["reign"], reign)
    present = cursor.execute(
        "UPDATE holdfast_nodes SET beat = greatest(beat, %s) + 1, seen = clock_timestamp() "
        "WHERE id = %s RETURNING beat",
        (beat, ticket.node),
    ).fetchone()
    assert present is not None
    if other:
        settled = row_reading.is_settled(cluster)
        session_transitions.reconcile(
            cursor, ticket.node, [each for each in held if each.session in other], settled=settled
        )
    rows = cursor.execute(row_reading.GRANTS, (ticket.node,)).fetchall()
    grants = [row_reading.grant(each) for each in rows]
    known = other.union(each.session for each in grants)
    unknown = [each.session for each in held if each.session not in known]
    return row_reading.renewal(cluster, present["beat"], row["state"], grants, unknown)


def set_state(cursor: Cursor, node: str, state: str, before: str) -> None:
    """Change the state of a node that is in a given state."""
    row = cursor.execute(
        "SELECT state FROM holdfast_nodes WHERE id = %s FOR NO KEY UPDATE", (node,)
    ).fetchone()
    if row is None:
        raise ClusterError(
            f"cannot find the node {plain(node, 100)!r}", hint="`holdfast cluster nodes` lists them"
        )
    if row["state"] == "lost":
        raise ClusterError(f"cannot change {node}: it is lost", hint="it has to register again")
    if row["state"] == before:
        cursor.execute("UPDATE holdfast_nodes SET state = %s WHERE id = %s", (state, node))


def nodes(cursor: Cursor) -> list[NodeRow]:
    """Return all nodes, by name."""
    cluster_reign.read(cursor)
    rows = cursor.execute(row_reading.NODES + "ORDER BY id").fetchall()
    return [row_reading.node(row) for row in rows]


def sightings(cursor: Cursor) -> tuple[int, list[Sighting]]:
    """Return the reign and the heartbeats of nodes that are not lost."""
    cluster = cluster_reign.read(cursor)
    if cluster["timeline"] != cluster["present_timeline"]:
        cluster = cluster_reign.begin(cursor, cluster["reign"])
    rows = cursor.execute(
        "SELECT id, incarnation, beat FROM holdfast_nodes WHERE state <> 'lost' ORDER BY id"
    ).fetchall()
    return cluster["reign"], [Sighting(row["id"], row["incarnation"], row["beat"]) for row in rows]


def declare_lost(cursor: Cursor, sighting: Sighting) -> bool:
    """Declare a node lost unless it has renewed since."""
    row = cursor.execute(
        "UPDATE holdfast_nodes SET state = 'lost' "
        "WHERE id = %s AND incarnation = %s AND beat = %s AND state <> 'lost' RETURNING id",
        (sighting.node, sighting.incarnation, sighting.beat),
    ).fetchone()
    return row is not None


def check_name(node: str) -> None:
    """Refuse a name that lists could not show."""
    if not node or plain(node, 100) != node:
        raise ClusterError(
            f"cannot register {plain(node, 100)!r}: the name of a node is 1 to 100 printable characters"
        )
