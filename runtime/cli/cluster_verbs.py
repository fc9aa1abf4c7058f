"""Verbs: cluster init, nodes, ls, drain, wake. They ask the database, and need neither home nor engine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.base.value_classes import as_table
from holdfast.errors import ClusterError, InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.cluster.cluster_rows import ClusterSession, NodeRow
    from holdfast.runtime.cluster.cluster_store import ClusterStore

DSN = "HOLDFAST_CLUSTER"
"""The variable with the address of the database: on a command line, others would see its password."""

WAIT_SECONDS = 1.0
CLUSTER = option("--cluster", metavar="DSN", help=f"The cluster's PostgreSQL; by default ${DSN}.")


@examples("cluster init", "cluster init --ttl 20 --margin 10")
def init(
    ttl: float | None = option("--ttl", metavar="SECONDS", help="How long a lease lasts; 30 by default."),
    beat: float | None = option("--beat", metavar="SECONDS", help="Time between renewals; 3 by default."),
    margin: float | None = option(
        "--margin", metavar="SECONDS", help="Time to freeze sessions after a lease; 10 by default."
    ),
    cluster: str | None = CLUSTER,
    json: bool = JSON,
) -> None:
    """Make the cluster's tables in its database; existing ones are kept."""
    with _store(cluster) as store:
        from holdfast.runtime.cluster.cluster_rows import LeaseTerms

        usual = LeaseTerms()
        wanted = LeaseTerms(
            usual.ttl_s if ttl is None else ttl,
            usual.beat_s if beat is None else beat,
            usual.margin_s if margin is None else margin,
        )
        terms = store.init(None if ttl is beat is margin is None else wanted)
    if wants_json(json):
        printing.emit(as_table(terms))
        return
    printing.note(
        f"the cluster is ready: leases last {terms.ttl_s:g} s, nodes renew every {terms.beat_s:g} s, and "
        f"sessions of a lost node move after {terms.ttl_s + terms.margin_s:g} s"
    )


@examples("cluster nodes")
def nodes(cluster: str | None = CLUSTER, json: bool = JSON) -> None:
    """List the nodes of the cluster, with their sessions and their memory."""
    with _store(cluster) as store:
        found = store.nodes()
    if wants_json(json):
        printing.emit([as_table(each) for each in found])
        return
    if not found:
        printing.note("the cluster is without nodes; `holdfast node` starts one")
        return
    printing.table(
        ["NAME", "STATE", "SESSIONS", "MEMORY", "SEEN", "VERSION", "ADDRESS"],
        [_node_line(each) for each in found],
    )


@examples("cluster ls", "cluster ls --node a")
def list_(
    node: str | None = option("--node", metavar="NODE", help="Only sessions of this node."),
    cluster: str | None = CLUSTER,
    json: bool = JSON,
) -> None:
    """List the sessions of the cluster: where they are, and how old their durable copy is."""
    with _store(cluster) as store:
        found = store.sessions(node=node)
    if wants_json(json):
        printing.emit([_as_dict(each) for each in found])
        return
    if not found:
        printing.note("the cluster is without sessions" if node is None else f"{node} is without sessions")
        return
    printing.table(
        ["NAME", "ID", "STATE", "NODE", "DURABLE", "REASON"], [_session_line(each) for each in found]
    )


@examples("cluster drain a", "cluster drain a --wait", "cluster drain a --undo")
def drain(
    node: str = argument("NODE", help="The name of a node."),
    undo: bool = option("--undo", help="Let it get sessions again."),
    wait: bool = option("--wait", help="Return once all sessions that can leave it have left."),
    cluster: str | None = CLUSTER,
    json: bool = JSON,
) -> None:
    """Have a node hand its sessions over to others, and get nothing further."""
    with _store(cluster) as store:
        if undo:
            store.undrain(node)
        else:
            store.drain(node)
        found = store.sessions(node=node)
        while wait and not undo and any(not each.reason for each in found):
            time.sleep(WAIT_SECONDS)
            found = store.sessions(node=node)
    left = len(found)
    if wants_json(json):
        printing.emit({"node": node, "state": "ready" if undo else "draining", "sessions": left})
    elif undo:
        printing.note(f"{node} gets sessions again")
    elif wait:
        for each in found:
            printing.note(f"{each.name} stays on {node}, suspended: {each.reason}")
        printing.note(f"{node} has handed over all sessions that can run elsewhere")
    else:
        count = "1 session" if left == 1 else f"{left} sessions"
        printing.note(f"{node} hands over {count}; `holdfast cluster nodes` shows how many are left")


@examples("cluster wake work")
def wake(
    session: str = argument("SESSION", help="Name or id."),
    cluster: str | None = CLUSTER,
    json: bool = JSON,
) -> None:
    """Have a session of the cluster that sleeps continue on a node that fits."""
    with _store(cluster) as store:
        found = store.wake(store.session(session).id)
    if wants_json(json):
        printing.emit(_as_dict(found))
    elif found.node is None:
        printing.note(f"{found.name} is {found.state.replace('_', ' ')}: {found.reason}")
    else:
        printing.note(f"{found.name} is {found.state} on {found.node}")


@contextmanager
def _store(cluster: str | None) -> Iterator[ClusterStore]:
    dsn = cluster or os.environ.get(DSN, "")
    if not dsn:
        raise InvalidArgument(
            "cannot find the cluster: the address of its database is missing",
            hint=f"set {DSN}=postgresql://USER@HOST/DATABASE",
        )
    try:
        from holdfast.runtime.cluster.cluster_store import ClusterStore
    except ModuleNotFoundError as error:
        from holdfast.base.extras import install_command

        raise ClusterError(
            f"cannot use a cluster: the package {error.name} is missing",
            hint=f"`{install_command('cluster')}`",
        ) from error
    store = ClusterStore(dsn)
    try:
        yield store
    finally:
        store.close()


def _node_line(node: NodeRow) -> list[str]:
    from holdfast.base import text
    from holdfast.base.quantities import gib_text

    return [
        node.id,
        node.state,
        str(node.sessions),
        f"{gib_text(node.reserved_bytes)} of {gib_text(node.memory_bytes)}",
        f"{text.seconds(max(0.0, node.seen_s))} ago",
        text.plain(node.version, 40),
        text.plain(node.address, 80),
    ]


def _session_line(session: ClusterSession) -> list[str]:
    from holdfast.base import text

    age = session.durable_age_s
    return [
        text.plain(session.name, 60),
        session.id,
        session.state.replace("_", " "),
        session.node or "",
        "never" if age is None else f"{text.seconds(max(0.0, age))} ago",
        text.plain(session.reason, 200),
    ]


def _as_dict(session: ClusterSession) -> dict[str, object]:
    copy = session.copy
    return {
        **as_table(session, "copy", "options", "durable"),
        "snapshot": copy.snapshot if copy else None,
        "reference": copy.reference if copy else None,
    }
