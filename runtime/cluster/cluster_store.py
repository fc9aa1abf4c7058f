"""The cluster's truth in PostgreSQL: nodes, sessions, who may run what, durable copies.

Owns SQL, transactions and PostgreSQL's errors. Decides nothing about time: it hands out heartbeats, and
`lease_rules` says how long they hold. Each operation is one transaction, safe to repeat, and safe against any
other at the same moment on whichever node. Permission to run a session comes from `renew` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    Route,
    SessionOrder,
    Sighting,
)


class ClusterStore:
    """A cluster, over one DSN (`postgresql://…`). Any thread may use it; connections are pooled, two at rest.

    Every method raises ClusterUnavailable while PostgreSQL does not answer within its time (`patience_s`);
    nothing is known then about whether the call took effect, and repeating it is safe.
    """

    def __init__(self, dsn: str, *, patience_s: float = 5.0) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections."""
        raise NotImplementedError

    def init(self, terms: LeaseTerms | None = None) -> LeaseTerms:
        """Make the tables, or bring those of an earlier version up to date; return the cluster's terms.

        Terms are set by the first call; other ones later are refused while any node is not lost.

        Raises:
            ClusterError: the tables are of a newer version, or the terms cannot be changed now.
        """
        raise NotImplementedError

    def terms(self) -> LeaseTerms:
        """Return the cluster's times.

        Raises:
            ClusterError: there are no tables yet: `holdfast cluster init`.
        """
        raise NotImplementedError

    # Nodes

    def register(self, offer: NodeOffer) -> NodeTicket:
        """Make a node `ready`, under a new incarnation: earlier tickets of it are void from now on.

        In the same boot of the machine it keeps its sessions. After another boot its containers are gone, and
        the name is possibly another machine's: it has to be declared lost first, for which this agent can
        watch as well as any other (`LostWatch`); its sessions are then released as by a takeover.

        Raises:
            NodeTaken: a node of this name and of another boot is not lost.
        """
        raise NotImplementedError

    def renew(self, ticket: NodeTicket, held: Sequence[Held], *, beat: int, reign: int) -> Renewal:
        """Renew a node's lease and return the sessions it may run. Nothing else permits it to.

        Take the time before calling (`lease_rules.renewed`). `held` are all sessions that exist on the node,
        frozen ones included. `beat` and `reign` are those of the last answer it got (`NodeLease`), 0 before
        the first: a higher beat than the database has shows that it lost what it had committed. A session
        that was taken from the node and not placed since returns to it here, as it is; in a new reign a
        higher epoch that a node holds corrects the row.

        Raises:
            LeaseLost: the ticket is void: the node was declared lost, or registered by a later agent. It
                freezes everything and registers again.
        """
        raise NotImplementedError

    def drain(self, node: str) -> None:
        """Have a node keep what it runs and get nothing further; its agent hands its sessions over.

        Raises:
            ClusterError: there is no such node.
        """
        raise NotImplementedError

    def undrain(self, node: str) -> None:
        """Take a drain back.

        Raises:
            ClusterError: there is no such node, or it is lost.
        """
        raise NotImplementedError

    def nodes(self) -> list[NodeRow]:
        """Return all nodes, by name."""
        raise NotImplementedError

    # Sessions, for any agent

    def place(self, order: SessionOrder) -> ClusterSession:
        """Record a session and choose a node for it; it is then `starting` there, or `waiting_for_node`.

        The same `key` returns the session it made, as it is now.

        Raises:
            SessionExists: the name is taken by a session that is not removed.
        """
        raise NotImplementedError

    def wake(self, session: str) -> ClusterSession:
        """Choose a node for a session that is asleep or waiting for one, under the next epoch.

        One that has a node already is returned as it is: of several callers one places it.

        Raises:
            SessionNotFound: there is none of that id.
        """
        raise NotImplementedError

    def remove(self, session: str) -> ClusterSession:
        """Remove a session; its node finds that it is not granted any more, and lets it go. Idempotent.

        Raises:
            SessionNotFound: there is none of that id.
        """
        raise NotImplementedError

    def route(self, ref: str) -> Route:
        """Return where requests for a session go, by its id or its name (an id counts first).

        Raises:
            SessionNotFound: there is none of that id or name.
        """
        raise NotImplementedError

    def session(self, ref: str) -> ClusterSession:
        """Return a session by its id or its name.

        Raises:
            SessionNotFound: there is none of that id or name.
        """
        raise NotImplementedError

    def sessions(self, *, node: str | None = None, all_states: bool = False) -> list[ClusterSession]:
        """Return the sessions, by name; of one node, or with removed ones, if asked for."""
        raise NotImplementedError

    def events(self, session: str, most: int = 100) -> list[ClusterEvent]:
        """Return what happened to a session in the cluster, the oldest first."""
        raise NotImplementedError

    # Sessions, for the node that has them: all refuse a stale node or epoch by LeaseLost.

    def adopt(self, ticket: NodeTicket, order: SessionOrder) -> Held:
        """Record a session that runs on this node already, and return it with its epoch; idempotent.

        Raises:
            LeaseLost: the ticket is void, or the session is another node's.
            SessionExists: the name is taken by another session that is not removed.
        """
        raise NotImplementedError

    def started(self, ticket: NodeTicket, held: Held) -> None:
        """Note that a session runs on its node under this epoch. Requests are routed to it from then on.

        Raises:
            LeaseLost: it is not this node's under this epoch.
        """
        raise NotImplementedError

    def failed(self, ticket: NodeTicket, held: Held, reason: str) -> ClusterSession:
        """Give a session up that could not be started here, or that died here; return where it goes.

        It is placed on a node that has not failed it yet, from its copy (or from its options, if it never
        ran); after three nodes, or without a copy, it is `lost` with the reason.

        Raises:
            LeaseLost: it is not this node's under this epoch.
        """
        raise NotImplementedError

    def slept(self, ticket: NodeTicket, held: Held) -> None:
        """Release a session whose container is gone and whose committed copy has its whole state.

        Raises:
            LeaseLost: it is not this node's under this epoch.
            ClusterError: it has no copy of this epoch.
        """
        raise NotImplementedError

    def handed_over(self, ticket: NodeTicket, held: Held) -> ClusterSession:
        """Release a session as `slept` does and place it on another node at once, for a drain.

        Raises:
            LeaseLost: it is not this node's under this epoch.
            ClusterError: it has no copy of this epoch.
        """
        raise NotImplementedError

    def commit_copy(self, ticket: NodeTicket, copy: DurableCopy) -> None:
        """Make a copy, whose content is in the registry already, the one that the session returns from.

        A repetition of the same number does nothing, nor does an older number. Notes of commands that the
        copy holds are dropped.

        Raises:
            LeaseLost: the session is not this node's under the copy's epoch.
        """
        raise NotImplementedError

    def note_commands(self, ticket: NodeTicket, held: Held, notes: Sequence[CommandNote]) -> None:
        """Keep the newest commands of a session, so that a loss can name them; at most 1000 a session.

        Raises:
            LeaseLost: it is not this node's under this epoch.
        """
        raise NotImplementedError

    # Takeover, for any agent

    def sightings(self) -> tuple[int, list[Sighting]]:
        """Return the reign, and the heartbeats of nodes that are not lost, for `lease_rules.LostWatch`."""
        raise NotImplementedError

    def declare_lost(self, sighting: Sighting) -> bool:
        """Declare a node lost, unless it has renewed since the sighting; return whether it was."""
        raise NotImplementedError

    def take_over(self, most: int = 100) -> list[ClusterSession]:
        """Release sessions of lost nodes and place those that wait for a node; return all that changed.

        One with a copy gets the next epoch and a node, or `waiting_for_node` with the reason; one that never
        ran is placed again; one without a copy is `lost`, with the reason, until its node returns. The event
        `recovered` says how many seconds were lost and which commands.
        """
        raise NotImplementedError

    def copies_in_use(self) -> list[str]:
        """Return the references of all committed copies, which garbage collection must keep."""
        raise NotImplementedError

    # News

    def wait_for_news(self, node: str, seconds: float) -> bool:
        """Wait until something concerns a node, at most for this long; return whether something did.

        It saves time and promises nothing: a node renews by its beat in any case.
        """
        raise NotImplementedError
