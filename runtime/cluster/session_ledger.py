"""Sessions in the database: placed, routed, released, lost, with their copies, notes and events.

Each function is within a transaction. Those that can give a session to a node return the session and the node
whose agent should hear of it. Those for the node that has a session refuse any other by LeaseLost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg.types.json import Jsonb

from holdfast.base.text import plain
from holdfast.errors import ClusterError, LeaseLost, SessionExists, SessionNotFound
from holdfast.runtime.cluster import cluster_reign, row_reading, session_transitions
from holdfast.runtime.cluster.cluster_database import Cursor
from holdfast.runtime.cluster.cluster_rows import (
    ClusterEvent,
    ClusterSession,
    CommandNote,
    DurableCopy,
    Held,
    NodeTicket,
    SessionOrder,
    SessionRoute,
)
from holdfast.runtime.cluster.node_chooser import NodeChooser
from holdfast.runtime.cluster.row_reading import Row

MOST_NOTES = 1000


def place(cursor: Cursor, chooser: NodeChooser, order: SessionOrder) -> tuple[ClusterSession, str | None]:
    """Record a session and choose a node for it."""
    cluster_reign.read(cursor)
    made = cursor.execute(
        "INSERT INTO holdfast_sessions (id, name, state, memory_bytes, options, durable, needs, key) "
        "VALUES (%s, %s, 'waiting_for_node', %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING id",
        (
            order.id,
            order.name,
            order.memory_bytes,
            Jsonb(order.options),
            Jsonb(order.durable),
            Jsonb(order.needs.model_dump(mode="json")),
            order.key,
        ),
    ).fetchone()
    if made is None:
        return _made_before(cursor, order), None
    return _assigned(cursor, chooser, order.id)


def adopt(cursor: Cursor, ticket: NodeTicket, order: SessionOrder) -> Held:
    """Record a session that runs on its node already."""
    tables = (Jsonb(order.options), Jsonb(order.durable), Jsonb(order.needs.model_dump(mode="json")))
    made = cursor.execute(
        "INSERT INTO holdfast_sessions (id, name, state, node, last_node, epoch, ran, memory_bytes, options, "
        "durable, needs) VALUES (%s, %s, 'running', %s, %s, 1, true, %s, %s, %s, %s) "
        "ON CONFLICT DO NOTHING RETURNING epoch",
        (order.id, order.name, ticket.node, ticket.node, order.memory_bytes, *tables),
    ).fetchone()
    if made is None and session_transitions.locked(cursor, order.id) is None:
        # One that was removed and has come back from a snapshot is the same session, in a further epoch.
        made = cursor.execute(
            "UPDATE holdfast_sessions SET name = %s, state = 'running', node = %s, last_node = %s, "
            "epoch = epoch + 1, ran = true, taken = false, copy_number = 0, memory_bytes = %s, options = %s, "
            "durable = %s, needs = %s, failed_nodes = '{}', reason = '' WHERE id = %s AND state = 'removed' "
            "AND NOT EXISTS (SELECT 1 FROM holdfast_sessions o WHERE o.name = %s AND o.state <> 'removed') "
            "RETURNING epoch",
            (order.name, ticket.node, ticket.node, order.memory_bytes, *tables, order.id, order.name),
        ).fetchone()
        if made is None:
            raise _taken(order)
    if session_transitions.valid_node(cursor, ticket) is None:
        raise LeaseLost(f"cannot take in {plain(order.name, 100)}: {ticket.node} is lost, or was replaced")
    if made is not None:
        told = {"node": ticket.node, "epoch": made["epoch"]}
        session_transitions.event(cursor, order.id, "adopted", told)
        return Held(order.id, made["epoch"])
    row = session_transitions.locked(cursor, order.id)
    if row is None or row["node"] != ticket.node:
        raise LeaseLost(f"cannot take in {plain(order.name, 100)}: another node has it")
    return Held(order.id, row["epoch"])


def wake(cursor: Cursor, chooser: NodeChooser, session: str) -> tuple[ClusterSession, str | None]:
    """Choose a node for a session that has none."""
    cluster = cluster_reign.read(cursor)
    row = session_transitions.locked(cursor, session)
    if row is None:
        raise _not_found(session)
    lost_for_good = row["state"] == "lost" and not row["copy_number"]
    if row["node"] is not None or lost_for_good:
        return row_reading.session(row), None
    if not row_reading.is_settled(cluster):
        session_transitions.hold_back(cursor, row, _unsettled(cluster))
        return _reread(cursor, session), None
    cursor.execute("UPDATE holdfast_sessions SET failed_nodes = '{}' WHERE id = %s", (session,))
    return _assigned(cursor, chooser, session)


def remove(cursor: Cursor, session: str) -> tuple[ClusterSession, str | None]:
    """Remove a session."""
    cluster_reign.read(cursor)
    row = session_transitions.locked(cursor, session)
    if row is None:
        found = cursor.execute(row_reading.SESSIONS + "WHERE s.id = %s", (session,)).fetchone()
        if found is None:
            raise _not_found(session)
        return row_reading.session(found), None
    cursor.execute(
        "UPDATE holdfast_sessions SET state = 'removed', node = NULL, last_node = coalesce(node, "
        "last_node), taken = false, recovery = NULL, reason = '' WHERE id = %s",
        (session,),
    )
    cursor.execute("DELETE FROM holdfast_copies WHERE session = %s", (session,))
    cursor.execute("DELETE FROM holdfast_notes WHERE session = %s", (session,))
    session_transitions.event(cursor, session, "removed", {"node": row["node"]})
    return _reread(cursor, session), row["node"]


def route(cursor: Cursor, ref: str) -> SessionRoute:
    """Return where requests for a session go."""
    row = cursor.execute(
        "SELECT s.id, s.name, s.state, s.epoch, s.node, s.reason, n.address, n.state AS node_state "
        "FROM holdfast_sessions s LEFT JOIN holdfast_nodes n ON n.id = s.node "
        "WHERE (s.id = %s OR s.name = %s) AND s.state <> 'removed' ORDER BY (s.id = %s) DESC LIMIT 1",
        (ref, ref, ref),
    ).fetchone()
    if row is None:
        raise _not_found(ref)
    reachable = row["state"] == "running" and row["node_state"] != "lost"
    reason = row["reason"]
    if row["node_state"] == "lost":
        reason = f"{row['node']} is lost; its sessions are being taken over"
    return SessionRoute(
        session=row["id"],
        name=row["name"],
        state=row["state"],
        epoch=row["epoch"],
        node=row["node"],
        address=row["address"] if reachable else None,
        reason=reason,
    )


def find(cursor: Cursor, ref: str) -> ClusterSession:
    """Return a session by its id or name."""
    row = cursor.execute(
        row_reading.SESSIONS + "WHERE (s.id = %s OR s.name = %s) AND s.state <> 'removed' "
        "ORDER BY (s.id = %s) DESC LIMIT 1",
        (ref, ref, ref),
    ).fetchone()
    if row is None:
        raise _not_found(ref)
    return row_reading.session(row)


def listing(cursor: Cursor, node: str | None, all_states: bool) -> list[ClusterSession]:
    """Return sessions, by name."""
    rows = cursor.execute(
        row_reading.SESSIONS + "WHERE (%s::text IS NULL OR s.node = %s) AND (%s OR s.state <> 'removed') "
        "ORDER BY s.name, s.id",
        (node, node, all_states),
    ).fetchall()
    return [row_reading.session(row) for row in rows]


def events(cursor: Cursor, session: str, most: int) -> list[ClusterEvent]:
    """Return the newest events of a session, the oldest first."""
    rows = cursor.execute(
        "SELECT session, kind, details, extract(epoch FROM clock_timestamp() - at)::float8 AS age_s "
        "FROM holdfast_events WHERE session = %s ORDER BY number DESC LIMIT %s",
        (session, most),
    ).fetchall()
    return [ClusterEvent(row["session"], row["kind"], row["age_s"], row["details"]) for row in reversed(rows)]


def started(cursor: Cursor, ticket: NodeTicket, held: Held) -> None:
    """Note that a session runs."""
    row = _held(cursor, ticket, held)
    if row["state"] == "running":
        return
    cursor.execute(
        "UPDATE holdfast_sessions SET state = 'running', ran = true, failed_nodes = '{}', reason = '', "
        "recovery = NULL WHERE id = %s",
        (held.session,),
    )
    where = {"node": ticket.node, "epoch": held.epoch}
    # The event lists the work after the copy; its journal gives the same numbers to later entries.
    cursor.execute(
        "DELETE FROM holdfast_notes WHERE session = %s AND seq > %s", (held.session, row["journal_seq"] or 0)
    )
    if row["recovery"]:
        session_transitions.event(cursor, held.session, "recovered", {**row["recovery"], "to": where})
    else:
        session_transitions.event(cursor, held.session, "started", where)


def failed(
    cursor: Cursor, chooser: NodeChooser, ticket: NodeTicket, held: Held, reason: str
) -> tuple[ClusterSession, str | None]:
    """Give up a session that did not start, or died."""
    terms = row_reading.terms(cluster_reign.read(cursor))
    row = dict(_held(cursor, ticket, held))
    why = f"{ticket.node}: {plain(reason, 300)}"
    if row["state"] == "starting":
        row["failed_nodes"] = [*row["failed_nodes"], ticket.node]
        cursor.execute(
            "UPDATE holdfast_sessions SET failed_nodes = %s WHERE id = %s",
            (row["failed_nodes"], held.session),
        )
    if len(row["failed_nodes"]) >= session_transitions.MOST_FAILURES:
        count = len(row["failed_nodes"])
        session_transitions.release(cursor, row, "lost")
        session_transitions.give_up(cursor, row, f"{count} nodes could not start it; the last was {why}")
        return _reread(cursor, held.session), None
    if not session_transitions.take_from(cursor, row, terms.ttl_s, why, returns=False):
        return _reread(cursor, held.session), None
    return _assigned(cursor, chooser, held.session)


def slept(cursor: Cursor, ticket: NodeTicket, held: Held) -> None:
    """Release a session that sleeps."""
    row = _held(cursor, ticket, held)
    _check_copy(row, held)
    session_transitions.release(cursor, row, "asleep")
    session_transitions.event(cursor, held.session, "asleep", {"node": ticket.node})


def handed_over(
    cursor: Cursor, chooser: NodeChooser, ticket: NodeTicket, held: Held
) -> tuple[ClusterSession, str | None]:
    """Release a session and place it on another node."""
    row = _held(cursor, ticket, held)
    _check_copy(row, held)
    session_transitions.release(cursor, row, "waiting_for_node")
    session_transitions.event(cursor, held.session, "handed_over", {"node": ticket.node})
    return _assigned(cursor, chooser, held.session, avoid=(ticket.node,))


def stays(cursor: Cursor, ticket: NodeTicket, held: Held, reason: str) -> None:
    """Note why a session cannot leave its node."""
    _held(cursor, ticket, held)
    cursor.execute(
        "UPDATE holdfast_sessions SET reason = %s WHERE id = %s", (plain(reason, 300), held.session)
    )


def commit_copy(cursor: Cursor, ticket: NodeTicket, copy: DurableCopy) -> None:
    """Make a copy the state that the session returns from."""
    held = Held(copy.session, copy.epoch)
    row = _held(cursor, ticket, held)
    if copy.number <= row["copy_number"]:
        return
    needs = Jsonb(copy.needs.model_dump(mode="json"))
    cursor.execute(
        "INSERT INTO holdfast_copies (session, epoch, number, snapshot, reference, journal_seq, "
        "size_bytes, needs, captured) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, clock_timestamp() - make_interval(secs => %s)) "
        "ON CONFLICT (session) DO UPDATE SET epoch = excluded.epoch, number = excluded.number, "
        "snapshot = excluded.snapshot, reference = excluded.reference, "
        "journal_seq = excluded.journal_seq, size_bytes = excluded.size_bytes, "
        "needs = excluded.needs, captured = excluded.captured",
        (
            copy.session,
            copy.epoch,
            copy.number,
            copy.snapshot,
            copy.reference,
            copy.journal_seq,
            copy.size_bytes,
            needs,
            max(0.0, copy.captured_age_s),
        ),
    )
    cursor.execute(
        "UPDATE holdfast_sessions SET copy_number = %s, needs = %s WHERE id = %s",
        (copy.number, needs, copy.session),
    )
    cursor.execute(
        "DELETE FROM holdfast_notes WHERE session = %s AND seq <= %s",
        (copy.session, copy.journal_seq),
    )


def note_commands(cursor: Cursor, ticket: NodeTicket, held: Held, notes: Sequence[CommandNote]) -> None:
    """Keep the newest commands of a session."""
    _held(cursor, ticket, held)
    cursor.executemany(
        "INSERT INTO holdfast_notes (session, seq, text, key) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
        [(held.session, note.seq, plain(note.text, 500), note.key) for note in notes],
    )
    cursor.execute(
        "DELETE FROM holdfast_notes WHERE session = %s AND seq <= "
        "(SELECT max(seq) FROM holdfast_notes WHERE session = %s) - %s",
        (held.session, held.session, MOST_NOTES),
    )


def copies_in_use(cursor: Cursor) -> list[str]:
    """Return the references of all committed copies."""
    rows = cursor.execute("SELECT DISTINCT reference FROM holdfast_copies ORDER BY 1").fetchall()
    return [row["reference"] for row in rows]


def take_one(cursor: Cursor, chooser: NodeChooser) -> tuple[ClusterSession | None, str | None]:
    """Take one session from a lost node; None if there is none to take."""
    cluster = cluster_reign.read(cursor)
    row = cursor.execute(
        row_reading.SESSIONS + "JOIN holdfast_nodes n ON n.id = s.node AND n.state = 'lost' "
        "LIMIT 1 FOR NO KEY UPDATE OF s SKIP LOCKED"
    ).fetchone()
    if row is None:
        return None, None
    # The node can have registered again since: it keeps its sessions then.
    lost = cursor.execute(
        "SELECT 1 FROM holdfast_nodes WHERE id = %s AND state = 'lost' FOR NO KEY UPDATE", (row["node"],)
    ).fetchone()
    if lost is None:
        return row_reading.session(row), None
    why = f"{row['node']} was lost"
    ttl_s = row_reading.terms(cluster).ttl_s
    if session_transitions.take_from(cursor, row, ttl_s, why, returns=True):
        return _assigned(cursor, chooser, row["id"])
    return _reread(cursor, row["id"]), None


def place_one(cursor: Cursor, chooser: NodeChooser, began: float) -> tuple[ClusterSession | None, str | None]:
    """Place one session that waits, and was not tried since `began`."""
    row = cursor.execute(
        "SELECT id FROM holdfast_sessions WHERE state = 'waiting_for_node' "
        "AND tried < to_timestamp(%s) ORDER BY tried LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED",
        (began,),
    ).fetchone()
    return _assigned(cursor, chooser, row["id"]) if row else (None, None)


def _assigned(
    cursor: Cursor, chooser: NodeChooser, session: str, avoid: Collection[str] = ()
) -> tuple[ClusterSession, str | None]:
    row = session_transitions.locked(cursor, session)
    assert row is not None
    node = session_transitions.assign(cursor, row, chooser, avoid)
    return _reread(cursor, session), node


def _reread(cursor: Cursor, session: str) -> ClusterSession:
    row = cursor.execute(row_reading.SESSIONS + "WHERE s.id = %s", (session,)).fetchone()
    assert row is not None
    return row_reading.session(row)


def _made_before(cursor: Cursor, order: SessionOrder) -> ClusterSession:
    row = cursor.execute(
        row_reading.SESSIONS + "WHERE s.key = %s AND %s::text IS NOT NULL", (order.key, order.key)
    ).fetchone()
    if row is None:
        raise _taken(order)
    return row_reading.session(row)


def _taken(order: SessionOrder) -> SessionExists:
    return SessionExists(f"cannot place {plain(order.name, 100)!r}: the name or id is taken")


def _held(cursor: Cursor, ticket: NodeTicket, held: Held) -> Row:
    row = session_transitions.held_row(cursor, ticket, held)
    if row is None:
        raise LeaseLost(
            f"cannot change {plain(held.session, 100)}: {ticket.node} does not have it under epoch "
            f"{held.epoch}"
        )
    return row


def _check_copy(row: Row, held: Held) -> None:
    if row["copy_epoch"] != held.epoch:
        raise ClusterError(
            f"cannot release {plain(held.session, 100)}: no copy of it was committed under epoch {held.epoch}"
        )


def _not_found(ref: str) -> SessionNotFound:
    return SessionNotFound(f"cannot find the session {plain(ref, 100)!r} in the cluster")


def _unsettled(cluster: Row) -> str:
    left = cluster["ttl_s"] + cluster["margin_s"] - cluster["reign_age_s"]
    return f"the database has failed over; sessions are placed again in {max(1, round(left))} s"
