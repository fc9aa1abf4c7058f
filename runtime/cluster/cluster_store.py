"""The cluster's truth in PostgreSQL: nodes, sessions, the right to run them, durable copies.

Owns the operations and their transactions. Decides nothing about time: it hands out heartbeats, and
`lease_rules` says how long they hold. Each operation is one transaction, safe to repeat, and safe against any
other at the same moment on whichever node. Permission to run a session comes from `renew` alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from holdfast.errors import ClusterError
from holdfast.runtime.cluster import (
    cluster_reign,
    cluster_schema,
    node_registry,
    row_reading,
    session_ledger,
)
from holdfast.runtime.cluster.cluster_database import ClusterDatabase, Cursor
from holdfast.runtime.cluster.cluster_rows import (
    ClusterEvent,
    ClusterSession,
    CommandNote,
    DurableCopy,
    Held,
    LeaseTerms,
    NodeOffer,
    NodeRow,
    NodeTicket,
    Renewal,
    SessionOrder,
    SessionRoute,
    Sighting,
)
from holdfast.runtime.cluster.node_chooser import NodeChooser

T = TypeVar("T")


class ClusterStore:
    """A cluster, over one DSN (`postgresql://…`). Any thread can use it; connections are kept and shared.

    Every method raises ClusterUnavailable while PostgreSQL does not answer within its time (`patience_s`);
    nothing is known then about whether the call took effect, and repeating it is safe.
    """

    def __init__(self, dsn: str, *, patience_s: float = 5.0, most_connections: int = 8) -> None:
        self._database = ClusterDatabase(dsn, patience_s=patience_s, most=most_connections)
        self._chooser = NodeChooser()

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def init(self, terms: LeaseTerms | None = None) -> LeaseTerms:
        """Make the tables, or bring earlier ones up to date; return the cluster's terms.

        Terms are set by the first call; a later call can change them once all nodes have stopped.

        Raises:
            ClusterError: the tables are of a newer version, or the terms cannot be changed now.
        """
        return self._database.transaction(lambda cursor: cluster_reign.make(cursor, terms))

    def terms(self) -> LeaseTerms:
        """Return the cluster's times.

        Raises:
            ClusterError: the tables are missing: `holdfast cluster init`.
        """
        return self._database.transaction(lambda cursor: row_reading.terms(cluster_reign.read(cursor)))

    # Nodes

    def register(self, offer: NodeOffer) -> NodeTicket:
        """Make a node `ready`, under a new incarnation: earlier tickets of it are void from now on.

        In the same boot of the machine it keeps its sessions. After another boot its containers have ended,
        and the name is possibly another machine's: it has to be declared lost first, for which this agent
        can watch as well as any other (`LostWatch`); its sessions are then released as by a takeover.

        Raises:
            NodeTaken: a node of this name and of another boot is not lost.
        """
        node_registry.check_name(offer.id)
        return self._database.transaction(lambda cursor: node_registry.register(cursor, offer))

    def renew(self, ticket: NodeTicket, held: Sequence[Held], *, beat: int, reign: int) -> Renewal:
        """Renew a node's lease and return the sessions it can run. Nothing else permits it to.

        Take the time before calling (`lease_rules.renewed`). `held` are all sessions that exist on the node,
        frozen ones included. `beat` and `reign` are from the last answer it got (`NodeLease`), 0 before
        the first: a higher beat than the database has shows that it lost its last commits. A session
        that was taken from the node and not placed since returns to it here, as it is; in a new reign a
        higher epoch that a node holds corrects the row.

        Raises:
            LeaseLost: the ticket is void: the node was declared lost, or registered by a later agent. It
                freezes everything and registers again.
        """
        return self._database.transaction(
            lambda cursor: node_registry.renew(cursor, ticket, held, beat, reign)
        )

    def drain(self, node: str) -> None:
        """Have a node keep what it runs and get nothing further; its agent hands its sessions over.

        Raises:
            ClusterError: the node does not exist.
        """
        self._database.transaction(lambda cursor: node_registry.set_state(cursor, node, "draining", "ready"))
        self._notify(node)

    def undrain(self, node: str) -> None:
        """Take a drain back.

        Raises:
            ClusterError: the node does not exist, or it is lost.
        """
        self._database.transaction(lambda cursor: node_registry.set_state(cursor, node, "ready", "draining"))
        self._notify(node)

    def nodes(self) -> list[NodeRow]:
        """Return all nodes, by name."""
        return self._database.transaction(node_registry.nodes)

    # Sessions, for any agent

    def place(self, order: SessionOrder) -> ClusterSession:
        """Record a session and choose a node for it; it is then `starting` there, or `waiting_for_node`.

        The same `key` returns the session it made, as it is now.

        Raises:
            SessionExists: the name is taken by a session that is not removed.
        """
        return self._noticed(lambda cursor: session_ledger.place(cursor, self._chooser, order))

    def wake(self, session: str) -> ClusterSession:
        """Choose a node for a session that is asleep or waiting for one, under the next epoch.

        One that has a node already is returned as it is: of several callers one places it.

        Raises:
            SessionNotFound: no session has that id.
        """
        return self._noticed(lambda cursor: session_ledger.wake(cursor, self._chooser, session))

    def remove(self, session: str) -> ClusterSession:
        """Remove a session; its node finds that it is not granted any more, and lets it go. Idempotent.

        Raises:
            SessionNotFound: no session has that id.
        """
        return self._noticed(lambda cursor: session_ledger.remove(cursor, session))

    def route(self, ref: str) -> SessionRoute:
        """Return where requests for a session go, by its id or its name (an id counts first).

        Raises:
            SessionNotFound: no session has that id or name.
        """
        return self._database.transaction(lambda cursor: session_ledger.route(cursor, ref))

    def session(self, ref: str) -> ClusterSession:
        """Return a session by its id or its name.

        Raises:
            SessionNotFound: no session has that id or name.
        """
        return self._database.transaction(lambda cursor: session_ledger.find(cursor, ref))

    def sessions(self, *, node: str | None = None, all_states: bool = False) -> list[ClusterSession]:
        """Return the sessions, by name; of one node, or with removed ones, if asked for."""
        return self._database.transaction(lambda cursor: session_ledger.listing(cursor, node, all_states))

    def events(self, session: str, most: int = 100) -> list[ClusterEvent]:
        """Return the events of a session in the cluster, the oldest first."""
        return self._database.transaction(lambda cursor: session_ledger.events(cursor, session, most))

    # Sessions, for the node that has them: all refuse a stale node or epoch by LeaseLost.

    def adopt(self, ticket: NodeTicket, order: SessionOrder) -> Held:
        """Record a session that runs on this node already, and return it with its epoch; idempotent.

        Raises:
            LeaseLost: the ticket is void, or the session is another node's.
            SessionExists: the name is taken by another session that is not removed.
        """
        return self._database.transaction(lambda cursor: session_ledger.adopt(cursor, ticket, order))

    def started(self, ticket: NodeTicket, held: Held) -> None:
        """Note that a session runs on its node under this epoch. Requests are routed to it from then on.

        Raises:
            LeaseLost: it is not this node's under this epoch.
        """
        self._database.transaction(lambda cursor: session_ledger.started(cursor, ticket, held))

    def failed(self, ticket: NodeTicket, held: Held, reason: str) -> ClusterSession:
        """Give a session up that could not be started here, or that died here; return where it goes.

        It is placed on a node that did not fail it, from its copy (or from its options, if it never
        ran); after three nodes, or without a copy, it is `lost` with the reason.

        Raises:
            LeaseLost: it is not this node's under this epoch.
        """
        return self._noticed(
            lambda cursor: session_ledger.failed(cursor, self._chooser, ticket, held, reason)
        )

    def slept(self, ticket: NodeTicket, held: Held) -> None:
        """Release a session whose container has ended and whose committed copy has its whole state.

        Raises:
            LeaseLost: it is not this node's under this epoch.
            ClusterError: a copy of this epoch is missing.
        """
        self._database.transaction(lambda cursor: session_ledger.slept(cursor, ticket, held))

    def handed_over(self, ticket: NodeTicket, held: Held) -> ClusterSession:
        """Release a session as `slept` does and place it on another node in one step, for a drain.

        Raises:
            LeaseLost: it is not this node's under this epoch.
            ClusterError: a copy of this epoch is missing.
        """
        return self._noticed(lambda cursor: session_ledger.handed_over(cursor, self._chooser, ticket, held))

    def stays(self, ticket: NodeTicket, held: Held, reason: str) -> None:
        """Note why a session cannot leave its node, which is drained; it is suspended there.

        Raises:
            LeaseLost: it is not this node's under this epoch.
        """
        self._database.transaction(lambda cursor: session_ledger.stays(cursor, ticket, held, reason))

    def commit_copy(self, ticket: NodeTicket, copy: DurableCopy) -> None:
        """Make a copy, whose content is in the registry already, the state that the session returns from.

        A repetition of the same number does nothing, nor does an older number. Notes of commands that the
        copy holds are dropped.

        Raises:
            LeaseLost: the session is not this node's under the copy's epoch.
        """
        self._database.transaction(lambda cursor: session_ledger.commit_copy(cursor, ticket, copy))

    def note_commands(self, ticket: NodeTicket, held: Held, notes: Sequence[CommandNote]) -> None:
        """Keep the newest commands of a session, so that a loss can name them; at most 1000 a session.

        Raises:
            LeaseLost: it is not this node's under this epoch.
        """
        self._database.transaction(lambda cursor: session_ledger.note_commands(cursor, ticket, held, notes))

    # Takeover, for any agent

    def sightings(self) -> tuple[int, list[Sighting]]:
        """Return the reign, and the heartbeats of nodes that are not lost, for `lease_rules.LostWatch`."""
        return self._database.transaction(node_registry.sightings)

    def declare_lost(self, sighting: Sighting) -> bool:
        """Declare a node lost, unless it has renewed since the sighting; return whether it was."""
        return self._database.transaction(lambda cursor: node_registry.declare_lost(cursor, sighting))

    def take_over(self, most: int = 100) -> list[ClusterSession]:
        """Release sessions of lost nodes and place all that wait for a node; return all that changed.

        One with a copy gets the next epoch and a node, or `waiting_for_node` with the reason; one that never
        ran is placed again; one without a copy is `lost`, with the reason, until its node returns. The event
        `recovered` says how many seconds were lost and which commands.
        """
        began = self._database.transaction(cluster_reign.now_if_settled)
        if began is None:
            return []
        changed: list[ClusterSession] = []
        for find in (
            lambda cursor: session_ledger.take_one(cursor, self._chooser),
            lambda cursor: session_ledger.place_one(cursor, self._chooser, began),
        ):
            while len(changed) < most and (done := self._noticed(find)) is not None:
                changed.append(done)
        return changed

    def copies_in_use(self) -> list[str]:
        """Return the references of all committed copies, which garbage collection must keep."""
        return self._database.transaction(session_ledger.copies_in_use)

    # News

    @contextmanager
    def news(self, node: str) -> Iterator[Callable[[float], bool]]:
        """Yield a function that waits until something concerns a node, at most for some seconds.

        It returns whether something did. It saves time and promises nothing: a node renews by its beat in any
        case.
        """
        with self._database.listening(cluster_schema.CHANNEL) as wait:

            def wait_for_mine(seconds: float) -> bool:
                until = time.monotonic() + seconds
                while (left := until - time.monotonic()) > 0:
                    if node in wait(left):
                        return True
                return False

            yield wait_for_mine

    def _noticed(self, work: Callable[[Cursor], tuple[T, str | None]]) -> T:
        """Return the change, once the agent of the node it concerns was notified."""
        changed, node = self._database.transaction(work)
        if node is not None:
            self._notify(node)
        return changed

    def _notify(self, node: str) -> None:
        """Wake the agent of a node; separate from the change, as notices are committed one by one."""

        def work(cursor: Cursor) -> None:
            cursor.execute("SET LOCAL synchronous_commit TO off")
            cursor.execute("SELECT pg_notify(%s, %s)", (cluster_schema.CHANNEL, node))

        with suppress(ClusterError):  # the node finds it by its next beat
            self._database.transaction(work)
