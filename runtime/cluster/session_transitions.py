"""Changes of a session's row within a transaction: given to a node, taken from one, lost, returned.

Each assumes that the session's row is locked, and locks nodes after it: all transactions take locks in this
order. Whichever change is made, the epoch grows when a node gets a session, and only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from holdfast.base.text import plain
from holdfast.runtime.cluster import row_reading
from holdfast.runtime.cluster.cluster_database import Cursor
from holdfast.runtime.cluster.cluster_rows import Held, NodeTicket
from holdfast.runtime.cluster.node_chooser import NodeChooser
from holdfast.runtime.cluster.placement import Choice
from holdfast.runtime.cluster.row_reading import Row
from holdfast.snapshots.fitness import Needs

MOST_FAILURES = 3
_TRIES = 8
_LOCKED_NODE = """
SELECT id FROM holdfast_nodes
WHERE id = %s AND state = 'ready' AND memory_bytes - reserved_bytes >= %s AND sessions < most_sessions
FOR NO KEY UPDATE
"""
_GIVEN = """
UPDATE holdfast_sessions
SET state = 'starting', node = %s, last_node = %s, taken = false, epoch = epoch + 1, reason = ''
WHERE id = %s RETURNING epoch
"""
_WAITS = """
UPDATE holdfast_sessions SET state = 'waiting_for_node', node = NULL, reason = %s, tried = clock_timestamp()
WHERE id = %s
"""
_LOST = "UPDATE holdfast_sessions SET state = 'lost', node = NULL, taken = %s, reason = %s WHERE id = %s"
_RELEASED = """
UPDATE holdfast_sessions SET state = %s, node = NULL, last_node = node, taken = %s, recovery = %s, reason = %s
WHERE id = %s
"""
_LOSS = """
SELECT extract(epoch FROM n.seen - c.captured)::float8 AS lost_s
FROM holdfast_copies c, holdfast_nodes n WHERE c.session = %s AND n.id = %s
"""
_HELD = (
    row_reading.SESSIONS
    + """
JOIN holdfast_nodes n ON n.id = s.node AND n.incarnation = %s AND n.state <> 'lost'
WHERE s.id = %s AND s.node = %s AND s.epoch = %s
FOR NO KEY UPDATE OF s
"""
)
_MISMATCHED = """
SELECT s.id FROM holdfast_sessions s JOIN unnest(%s::text[], %s::bigint[]) AS h (id, epoch) ON h.id = s.id
WHERE s.node IS DISTINCT FROM %s OR s.epoch <> h.epoch
ORDER BY s.id FOR NO KEY UPDATE OF s
"""
_RETURNED = """
UPDATE holdfast_sessions
SET node = %s, taken = false, reason = '',
    state = CASE WHEN ran THEN 'running' ELSE 'starting' END,
    recovery = CASE WHEN ran THEN NULL ELSE recovery END
WHERE id = %s AND taken AND last_node = %s AND epoch = %s AND state IN ('lost', 'waiting_for_node')
RETURNING id
"""
_CORRECTED = """
UPDATE holdfast_sessions
SET node = %s, last_node = %s, epoch = %s, taken = false, ran = true, state = 'running', reason = '',
    recovery = NULL
WHERE id = %s AND epoch < %s AND state <> 'removed' RETURNING id
"""


def locked(cursor: Cursor, session: str) -> Row | None:
    """Lock and return the row of a session, with its copy."""
    return cursor.execute(
        row_reading.SESSIONS + "WHERE s.id = %s AND s.state <> 'removed' FOR NO KEY UPDATE OF s", (session,)
    ).fetchone()


def valid_node(cursor: Cursor, ticket: NodeTicket) -> Row | None:
    """Lock and return the row of a node; None if its ticket is void."""
    return cursor.execute(
        "SELECT beat, state FROM holdfast_nodes WHERE id = %s AND incarnation = %s AND state <> 'lost' "
        "FOR NO KEY UPDATE",
        (ticket.node, ticket.incarnation),
    ).fetchone()


def event(cursor: Cursor, session: str, kind: str, details: dict[str, Any]) -> None:
    """Add an event of a session."""
    cursor.execute(
        "INSERT INTO holdfast_events (session, kind, details) VALUES (%s, %s, %s)",
        (session, kind, Jsonb(details)),
    )


def held_row(cursor: Cursor, ticket: NodeTicket, held: Held) -> Row | None:
    """Lock and return the row of a session that this node has under this epoch; None if it does not."""
    return cursor.execute(_HELD, (ticket.incarnation, held.session, ticket.node, held.epoch)).fetchone()


def assign(cursor: Cursor, row: Row, choose: NodeChooser, avoid: Collection[str] = ()) -> str | None:
    """Give a session to a node, or note why none fits; return the node."""
    needs = Needs.model_validate(row["needs"])
    refused = {*row["failed_nodes"], *avoid}
    choice = Choice()
    for present in (False, True, True):
        choice = choose(cursor, needs, row["memory_bytes"], refused, row["last_node"], present=present)
        for node in choice.nodes[:_TRIES]:
            # Rows of nodes change all the time; what was read before is only a guess, twice at most.
            if cursor.execute(_LOCKED_NODE, (node, row["memory_bytes"])).fetchone():
                given = cursor.execute(_GIVEN, (node, node, row["id"])).fetchone()
                assert given is not None
                choose.took(node, row["memory_bytes"])
                event(cursor, row["id"], "placed", {"node": node, "epoch": given["epoch"]})
                return node
    why = "no node fits: all were taken at this moment" if choice.nodes else choice.why_none()
    if why != row["reason"] or row["state"] != "waiting_for_node":
        event(cursor, row["id"], "waiting_for_node", {"reason": why})
    cursor.execute(_WAITS, (why, row["id"]))
    return None


def hold_back(cursor: Cursor, row: Row, why: str) -> None:
    """Have a session wait without looking for a node."""
    cursor.execute(_WAITS, (why, row["id"]))


def release(cursor: Cursor, row: Row, state: str, why: str = "") -> None:
    """Take a session from its node, which has given it up itself."""
    recovery = row["recovery"]
    cursor.execute(_RELEASED, (state, False, Jsonb(recovery) if recovery else None, why, row["id"]))


def take_from(cursor: Cursor, row: Row, ttl_s: float, why: str, *, returns: bool) -> bool:
    """Take a session from a node that is lost or has lost it; return whether it can be placed again.

    `returns`: the node can still have it, frozen, and gets it back if it is there before another node is
    chosen. The last heartbeat says until when the node was seen; it can have run for a lease more.
    """
    recovery = row["recovery"]
    copied = row["copy_number"] > 0
    if not copied and row["ran"]:
        hint = f"; it returns if {row['node']} does" if returns else ""
        cursor.execute(
            _RELEASED, ("lost", returns, None, f"{why}, and nothing durable was kept{hint}", row["id"])
        )
        event(cursor, row["id"], "lost", {"node": row["node"], "reason": why})
        return False
    if copied and row["state"] == "running":
        loss = cursor.execute(_LOSS, (row["id"], row["node"])).fetchone()
        lost_s = max(0.0, loss["lost_s"] if loss else 0.0)
        recovery = {
            "node": row["node"],
            "reason": why,
            "lost_s": round(lost_s, 1),
            "at_most_s": round(lost_s + ttl_s, 1),
            "commands": _notes(cursor, row["id"], row["journal_seq"]),
        }
    cursor.execute(
        _RELEASED, ("waiting_for_node", returns, Jsonb(recovery) if recovery else None, why, row["id"])
    )
    event(cursor, row["id"], "taken_over", {"node": row["node"], "reason": why})
    return True


def give_up(cursor: Cursor, row: Row, why: str) -> None:
    """Declare a session lost although it has a copy: no node could start it."""
    cursor.execute(_LOST, (False, why, row["id"]))
    event(cursor, row["id"], "lost", {"node": row["node"], "reason": why})


def mismatched(cursor: Cursor, node: str, held: Sequence[Held]) -> set[str]:
    """Lock and return the sessions that exist on a node while their rows say something else."""
    ids, epochs = [each.session for each in held], [each.epoch for each in held]
    return {row["id"] for row in cursor.execute(_MISMATCHED, (ids, epochs, node)).fetchall()}


def reconcile(cursor: Cursor, node: str, held: Iterable[Held], *, settled: bool) -> None:
    """Return sessions to a node that still has them, if no other got them; correct rows of an old reign."""
    for each in held:
        if cursor.execute(_RETURNED, (node, each.session, node, each.epoch)).fetchone():
            event(cursor, each.session, "returned", {"node": node, "epoch": each.epoch})
        elif not settled:
            values = (node, node, each.epoch, each.session, each.epoch)
            if cursor.execute(_CORRECTED, values).fetchone():
                event(cursor, each.session, "corrected", {"node": node, "epoch": each.epoch})


def _notes(cursor: Cursor, session: str, since: int) -> list[dict[str, Any]]:
    rows = cursor.execute(
        "SELECT seq, text, key FROM holdfast_notes WHERE session = %s AND seq > %s ORDER BY seq",
        (session, since),
    ).fetchall()
    return [{"seq": row["seq"], "text": plain(row["text"], 200), "key": row["key"]} for row in rows]
