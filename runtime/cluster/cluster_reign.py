"""The one row about the cluster as a whole: its times, the version of its tables, the reign of its database.

A reign lasts while the database keeps what it has committed. It ends when the database continues on another
timeline of its log (a standby took over, a backup was restored), or a node knows of a later heartbeat than
the database.
"""

from __future__ import annotations

from holdfast.errors import ClusterError
from holdfast.runtime.cluster import cluster_schema, row_reading
from holdfast.runtime.cluster.cluster_database import Cursor
from holdfast.runtime.cluster.cluster_rows import LeaseTerms
from holdfast.runtime.cluster.row_reading import Row

MISSED_BEATS = 3
"""A node that has missed this many is not chosen: it is possibly being lost."""
_SEEN_OF_LATE = """
SELECT 1 FROM holdfast_nodes n, holdfast_cluster c
WHERE n.state <> 'lost' AND n.seen > clock_timestamp() - make_interval(secs => c.ttl_s + c.margin_s)
"""


def make(cursor: Cursor, terms: LeaseTerms | None) -> LeaseTerms:
    """Make the tables unless they exist; return the cluster's times."""
    if terms is not None:
        _check_terms(terms)
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (cluster_schema.LOCK,))
    setting = cursor.execute("SHOW synchronous_commit").fetchone()
    if setting and setting["synchronous_commit"] == "off":
        raise ClusterError(
            "cannot use this database for a cluster: synchronous_commit is off, so that it can forget "
            "who runs what",
            hint="set synchronous_commit to on for this database",
        )
    cursor.execute(cluster_schema.DEFINITIONS)
    wanted = terms or LeaseTerms()
    cursor.execute(
        "INSERT INTO holdfast_cluster (version, ttl_s, beat_s, margin_s, timeline) "
        "VALUES (%s, %s, %s, %s, left(pg_walfile_name(pg_current_wal_lsn()), 8)) "
        "ON CONFLICT DO NOTHING",
        (cluster_schema.VERSION, wanted.ttl_s, wanted.beat_s, wanted.margin_s),
    )
    row = read(cursor)
    if terms is None or terms == row_reading.terms(row):
        return row_reading.terms(row)
    if cursor.execute(_SEEN_OF_LATE).fetchone():
        raise ClusterError(
            "cannot change the times of a cluster while it has nodes: they would disagree about the "
            "end of a lease",
            hint=f"stop all nodes, and try again after {row['ttl_s'] + row['margin_s']:g} s",
        )
    cursor.execute(
        "UPDATE holdfast_cluster SET ttl_s = %s, beat_s = %s, margin_s = %s",
        (terms.ttl_s, terms.beat_s, terms.margin_s),
    )
    return terms


def read(cursor: Cursor) -> Row:
    """Return the row, with the present timeline and the age of the reign."""
    row = cursor.execute(row_reading.CLUSTER).fetchone()
    if row is None:
        raise ClusterError(
            "cannot use the cluster's database: it is empty",
            hint="make its tables with `holdfast cluster init`",
        )
    if row["version"] > cluster_schema.VERSION:
        raise ClusterError(
            f"cannot use the cluster's database: its tables are of version {row['version']}, this Holdfast "
            f"knows up to {cluster_schema.VERSION}",
            hint="upgrade Holdfast on this machine",
        )
    return row


def begin(cursor: Cursor, reign: int, known: int = 0) -> Row:
    """Begin the reign after this one, unless another transaction has; return the row.

    `known`: the latest reign that a node knows of. A database that forgot a reign must not give its number
    again, or that node would take the new one for it.
    """
    cursor.execute(
        "UPDATE holdfast_cluster SET reign = greatest(reign, %s) + 1, reign_began = clock_timestamp(), "
        "timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) WHERE reign = %s",
        (known, reign),
    )
    return read(cursor)


def now_if_settled(cursor: Cursor) -> float | None:
    """Return the database's time, or None in a reign that is not settled yet: rows can still be corrected."""
    if not row_reading.is_settled(read(cursor)):
        return None
    row = cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8 AS now").fetchone()
    assert row is not None
    return float(row["now"])


def _check_terms(terms: LeaseTerms) -> None:
    if not (0 < terms.beat_s * MISSED_BEATS <= terms.ttl_s and terms.margin_s > 0):
        raise ClusterError(
            f"cannot use these times: a lease of {terms.ttl_s:g} s must last for {MISSED_BEATS} beats of "
            f"{terms.beat_s:g} s, and the margin must be positive"
        )
