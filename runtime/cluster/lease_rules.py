"""When a node can run a session, and when another can take it over.  Pure: times come in, decisions go out.

All times here are seconds of CLOCK_BOOTTIME of one machine, which no administrator sets and which counts
while the machine sleeps. Times of two machines are never compared, only lengths of time: a node counts its
lease from before it sent a renewal, and an observer counts from after it has read the heartbeat, so the
observer always waits longer, however late a message arrives and whatever the clocks show.

Rules, for terms of `ttl` and `margin`:

- A node can run a session while its lease lasts, if the last answer granted it that session under that epoch,
  and it did not give it away since. It has `margin` from the end of its lease to have frozen everything.
- An observer that has seen the same heartbeat for `ttl + margin`, in regular contact, can declare the node
  lost.
- After the database has possibly lost its last commits (a new reign), for `ttl + margin` nothing begins:
  what runs goes its way, holders report their epochs, and higher ones correct the rows. By then each other
  node's lease of the old reign has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.base.value_classes import dataclass, field, replace
from holdfast.runtime.cluster.cluster_rows import (
    Held,
    LeaseTerms,
    NodeTicket,
    Renewal,
    SessionGrant,
    Sighting,
)

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class NodeLease:
    """A node's permission, from its answered renewals. `ends_at`: from then on nothing of it can run.

    `reign_since`: since when this node has known the reign; `settled_at`: when it can begin things.
    `unknown` are its sessions that the database did not know, `given_away` the sessions it released, with
    their epochs, until an answer no longer grants them.
    """

    ticket: NodeTicket
    terms: LeaseTerms
    beat: int = 0
    ends_at: float = NEVER
    reign: int = 0
    settled_at: float = float("inf")
    draining: bool = False
    grants: Mapping[str, SessionGrant] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    given_away: Mapping[str, int] = field(default_factory=dict)

    def granted(self, session: str) -> SessionGrant | None:
        """Return the grant of a session that the node did not give away."""
        grant = self.grants.get(session)
        if grant is None or grant.epoch <= self.given_away.get(session, -1):
            return None
        return grant

    def lasts(self, now: float) -> bool:
        """Return whether sessions of it can run now."""
        return now < self.ends_at

    def is_settled(self, now: float) -> bool:
        """Return whether something can begin now, as far as the reign is concerned."""
        return now >= self.settled_at


def renewed(lease: NodeLease, sent_at: float, received_at: float, answer: Renewal) -> NodeLease:
    """Return the lease after an answer; `sent_at` is from before the request left.

    An older answer that arrives after a newer one changes nothing.
    """
    if answer.reign < lease.reign or (answer.reign == lease.reign and answer.beat <= lease.beat):
        return lease
    settled_at = lease.settled_at
    if answer.reign != lease.reign:
        # A node that has just joined takes the database's word for how old the reign is; one that saw it
        # change counts by its own clock.
        waits = answer.terms.ttl_s + answer.terms.margin_s
        joined = lease.reign == 0
        settled_at = received_at + (max(0.0, waits - answer.reign_age_s) if joined else waits)
    grants = {grant.session: grant for grant in answer.grants}
    # A database that forgot can give the same epochs again, and starts wait until it is settled.
    kept = lease.given_away if answer.reign == lease.reign else {}
    away = {
        session: epoch
        for session, epoch in kept.items()
        if session in grants and grants[session].epoch <= epoch
    }
    return replace(
        lease,
        terms=answer.terms,
        beat=answer.beat,
        ends_at=max(lease.ends_at, sent_at + answer.terms.ttl_s),
        reign=answer.reign,
        settled_at=settled_at,
        draining=answer.state == "draining",
        grants=grants,
        unknown=frozenset(answer.unknown),
        given_away=away,
    )


def given_away(lease: NodeLease, held: Held) -> NodeLease:
    """Return the lease without a session whose container has ended.

    It comes before `slept`, `handed_over` and `failed`. An answer that was on its way when the session was
    released would have it started here a second time.
    """
    return replace(lease, given_away={**lease.given_away, held.session: held.epoch})


class Present(NamedTuple):
    """A session that exists on the node, and whether it is frozen."""

    held: Held
    frozen: bool


@dataclass(frozen=True, slots=True)
class Duties:
    """The duties of a node towards each session. Every present session is in one of the first three.

    `run`: continues, or is thawed. `freeze`: must not run now, and is kept. `let_go`: belongs to another node
    or was removed: freeze it, keep its files a day, and remove it. `start`: begins here, and is not here yet.
    `disown`: the database has it here, and it is not and cannot begin: say so (`ClusterStore.failed`), or it
    stays without a place. That the node gave it away did not reach the database, or was forgotten there.
    """

    run: tuple[Held, ...] = ()
    freeze: tuple[Held, ...] = ()
    let_go: tuple[Held, ...] = ()
    start: tuple[SessionGrant, ...] = ()
    disown: tuple[Held, ...] = ()


def duties(lease: NodeLease, present: Iterable[Present], now: float) -> Duties:
    """Return the duties of a node now towards the sessions that exist on it, and which ones it starts.

    Freezing comes first, whatever else fails. Removing waits until the reign is settled, because a row can be
    older than the state on the node.
    """
    run: list[Held] = []
    freeze: list[Held] = []
    let_go: list[Held] = []
    here: set[str] = set()
    for held, frozen in present:
        grant = lease.granted(held.session)
        granted = grant is not None and grant.epoch == held.epoch
        if granted:
            here.add(held.session)
        if not lease.lasts(now):
            freeze.append(held)
        elif granted:
            (freeze if frozen and not lease.is_settled(now) else run).append(held)
        elif held.session in lease.unknown or not lease.is_settled(now):
            freeze.append(held)
        else:
            let_go.append(held)
    begins = lease.lasts(now) and lease.is_settled(now)
    # A session whose earlier epoch is still here begins when that has been removed.
    still = {held.session for held in (*freeze, *let_go)}
    absent = [
        grant
        for session, grant in lease.grants.items()
        if begins and session not in here and session not in still
    ]
    start, disown = [], []
    for grant in absent:
        if lease.granted(grant.session) and not grant.started:
            start.append(grant)
        else:
            disown.append(Held(grant.session, grant.epoch))
    return Duties(tuple(run), tuple(freeze), tuple(let_go), tuple(start), tuple(disown))


class LostWatch:
    """One node's view of the heartbeats of all: which have stayed the same for long enough to be lost."""

    def __init__(self, terms: LeaseTerms) -> None:
        self._terms = terms
        self._reign = 0
        self._looked_at = NEVER
        self._since: dict[Sighting, float] = {}

    def look(self, now: float, reign: int, sightings: Iterable[Sighting]) -> list[Sighting]:
        """Return the nodes that are lost; `now` is from after the heartbeats were read.

        After a longer time without a look (the database was away, this machine was paused) all are watched
        from the beginning: the other nodes were possibly cut off as well, and get the time to return.
        """
        if reign != self._reign or now - self._looked_at > self._terms.ttl_s / 2:
            self._since = {}
        self._reign, self._looked_at = reign, now
        self._since = {sighting: self._since.get(sighting, now) for sighting in sightings}
        long_enough = self._terms.ttl_s + self._terms.margin_s
        return [sighting for sighting, since in self._since.items() if now - since >= long_enough]
