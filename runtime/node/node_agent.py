"""The agent of a node: registers with the cluster, renews the lease, and does what that permits and demands.

Decides nothing about leases: `lease_rules` does, from the answers of `ClusterStore`. It passes their end on
to the keeper, which freezes; starts the sessions that the node is granted, lets go those it is not, brings
new ones of its home into the cluster, makes durable copies, and takes part in declaring other nodes lost.
Each of its methods is one round of one of these, for a thread of its own; none waits for another.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base import node_lease
from holdfast.base.node_lease import LeaseFile
from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import ClusterUnavailable, HoldfastError, LeaseLost, SessionExists, SessionNotFound
from holdfast.runtime.cluster import lease_rules
from holdfast.runtime.cluster.cluster_rows import Held, NodeOffer, NodeTicket, SessionGrant, SessionOrder
from holdfast.runtime.cluster.lease_rules import Duties, LostWatch, NodeLease
from holdfast.runtime.journal import host_events
from holdfast.runtime.node import lease_keeper, session_marks, session_release, session_return
from holdfast.runtime.node.durable_copies import DurableCopies, Registry
from holdfast.runtime.node.durable_schedule import DurableSchedule
from holdfast.runtime.node.ended_sessions import EndedSessions
from holdfast.runtime.node.network_leases import NetworkLeases
from holdfast.runtime.node.session_release import SessionReleases
from holdfast.runtime.restore.compat import snapshot_ladder
from holdfast.runtime.sessions import health
from holdfast.runtime.sessions.session_options import SessionOptions

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.cluster.cluster_store import ClusterStore
    from holdfast.runtime.node.session_marks import HomeSessions
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

ACTOR = "system:cluster"
FROZEN, THAWED, BROKEN, MENDED = "frozen", "thawed", "durability_broken", "durable_again"
STARTS_AT_ONCE = 4
logger = logging.getLogger("holdfast.node")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How a node takes part. `loss`: seconds of work that a loss can cost where a policy does not say; 0 for
    no copies.
    """

    name: str
    address: str
    registry: Registry
    loss: float = 60.0


class NodeAgent:
    """One node, over its home and the cluster's store."""

    def __init__(self, context: Context, store: ClusterStore, settings: NodeSettings) -> None:
        self._context, self._store, self._settings = context, store, settings
        self._boot = node_lease.boot_id()
        self._lock = threading.Lock()
        self._lease: NodeLease | None = None
        self._contact = 0.0
        frozen = node_lease.read_frozen(context.home)
        # An agent before this one has noted these.
        self._frozen = dict.fromkeys(frozen.containers.values(), frozen.since)
        self._watch: LostWatch | None = None
        self._copies = DurableCopies(context, store, settings.registry, lambda: self.lease.ticket)
        self._schedule = DurableSchedule(os.cpu_count() or 1)
        self._networks = NetworkLeases(context)
        self._ended = EndedSessions()
        self._releases = SessionReleases(
            context, store, self._copies, lambda: self.lease.ticket, self._copy_number, self._give_away
        )
        self._local: dict[str, str] = {}
        self._undurable: dict[str, str] = {}
        self._unreleased: dict[str, str] = {}

    @property
    def home(self) -> Home:
        """Its home."""
        return self._context.home

    @property
    def lease(self) -> NodeLease:
        """Its lease, as of the last answer.

        Raises:
            ClusterUnavailable: it has not registered yet.
        """
        found = self._lease
        if found is None:
            raise ClusterUnavailable("cannot use the cluster: this node has not registered yet")
        return found

    @property
    def lasts(self) -> bool:
        """Whether its lease lasts now."""
        return self._lease is not None and self._lease.lasts(node_lease.now())

    # The lease.

    def beat(self) -> float:
        """Renew the lease, and return the seconds until the next time; register first if that is due.

        Raises:
            ClusterError: the database is out of reach, or refuses.
        """
        if self._lease is None:
            self._register()
        lease = self.lease
        found = session_marks.look(self._context)
        try:
            # In this thread: an answer that left before a session was taken in would have it let go.
            taken = self._take_in(lease.ticket, found.new)
            sent_at, at = node_lease.now(), time.time()
            held = [*(each.held for each in found.present), *taken]
            answer = self._store.renew(lease.ticket, held, beat=lease.beat, reign=lease.reign)
        except LeaseLost:
            self._stop_now()
            raise
        with self._lock:  # a grant and the mark of its session are seen together, or neither
            if self._lease is not None:
                lease = self._lease = lease_rules.renewed(self._lease, sent_at, node_lease.now(), answer)
            for each, loss in taken.items():
                session_marks.mark(self._context, each.session, each.epoch, loss)
        self._contact = at
        self._pass_on(lease)
        lease_keeper.start(self.home)
        return lease.terms.beat_s

    def _register(self) -> None:
        terms = self._store.terms()
        here = snapshot_ladder.probe_machine(self._context, live=True)
        ticket = self._store.register(
            NodeOffer(
                id=self._settings.name,
                boot=self._boot,
                address=self._settings.address,
                memory_bytes=here.memory_bytes or 0,
                here=here,
                version=VERSION,
            )
        )
        with self._lock:
            self._lease = NodeLease(ticket, terms)
        logger.info("registered as %s (%d)", ticket.node, ticket.incarnation)

    def _pass_on(self, lease: NodeLease) -> None:
        """Tell the keeper the end of the sessions' lease, and the node's own sessions."""
        present = session_marks.look(self._context).present
        run = lease_rules.duties(lease, present, node_lease.now()).run
        owned = frozenset(each.session for each in run)
        node_lease.write_lease(self.home, LeaseFile(self._boot, lease.ends_at, self._contact, owned))

    def _stop_now(self) -> None:
        """Have the keeper freeze everything: the node is not part of the cluster until it registers again."""
        with self._lock:
            self._lease = None
        node_lease.write_lease(self.home, LeaseFile(self._boot, 0.0, self._contact))

    def pass_on_to_networks(self) -> None:
        """Have the networks of the sessions close by themselves at the end of the lease."""
        rows = self._own().values()
        if rows:
            lease = self.lease
            self._networks.renew(rows, lease.ends_at, lease.terms.ttl_s, node_lease.now())

    # What the lease demands.

    def obey(self) -> None:
        """Let go what is not granted; `start` starts what is."""
        self._tell_of_freezes()
        found, duties, lease = self._demanded()
        if lease is None:
            return
        busy = self._releases.under_way
        for held in found.removed:
            self._removed_by_owner(held)
        for held in duties.run:
            self._say_started(lease, held)
        for held in duties.let_go:
            if held.session not in busy:
                self._let_go(held)
        self._disown(lease.ticket, [held for held in duties.disown if held.session not in busy])

    def start(self) -> None:
        """Start what is granted, some at a time: the sessions of a lost node can be many."""
        granted = self._lease.grants.values() if self._lease is not None else ()
        if all(grant.started for grant in granted):  # as a rule; the sessions need not be read
            return
        _, duties, _ = self._demanded()
        if duties.start:
            with ThreadPoolExecutor(STARTS_AT_ONCE, "node-start") as threads:
                for done in [threads.submit(self._start, grant) for grant in duties.start]:
                    done.result()

    def _demanded(self) -> tuple[HomeSessions, Duties, NodeLease | None]:
        """Return the sessions of the home, and the duties towards them; no lease and no duties without one
        that lasts.
        """
        with self._lock:  # a grant and the mark of its session are seen together, or neither
            found, lease = session_marks.look(self._context), self._lease
        now = node_lease.now()
        if lease is None or not lease.lasts(now):
            return found, Duties(), None
        return found, lease_rules.duties(lease, found.present, now), lease

    def recover_ended(self) -> None:
        """Give up sessions whose containers have ended, so that they return from their copies."""
        if not self.lasts or not self.lease.is_settled(node_lease.now()):
            return
        rows = health.observe_all(self._context)
        self._ended.keep({row.id for row in rows})
        busy = self._releases.under_way
        for row in rows:
            mark, grant = row.details.cluster, self.lease.granted(row.id)
            if row.state != "dead" or mark is None or grant is None or row.id in busy:
                continue
            copied = grant.epoch == mark.epoch and grant.copy_number > 0
            if copied and self._ended.can_return(row.id, time.monotonic()):
                held = Held(row.id, mark.epoch)
                logger.warning("the container of %s has ended; it returns from its copy", row.name)
                self._give_away(held)
                with suppress(LeaseLost):
                    self._store.failed(self.lease.ticket, held, "its container has ended")

    def _say_started(self, lease: NodeLease, held: Held) -> None:
        """Report a session that was brought back by an agent that died before it said so."""
        grant = lease.granted(held.session)
        if grant is not None and not grant.started:
            self._store.started(lease.ticket, held)

    def _disown(self, ticket: NodeTicket, absent: Iterable[Held]) -> None:
        """Report sessions that the database has here, and that are not."""
        for held in absent:
            with suppress(LeaseLost):  # the database knows by now
                self._store.failed(ticket, held, "does not have it")

    def _take_in(self, ticket: NodeTicket, rows: Iterable[SessionRow]) -> dict[Held, float]:
        """Make sessions of this home ones of the cluster, where their names are free; return their losses.

        They are marked once a renewal has granted them.
        """
        taken = dict[Held, float]()
        for row in rows:
            if row.id in self._local:
                continue
            memory = int(row.options.get("memory") or SessionOptions().memory)
            loss = session_marks.loss_of(row, self._settings.loss)
            order = SessionOrder(row.id, row.name, memory, durable={"loss": loss})
            try:
                taken[self._store.adopt(ticket, order)] = loss
            except SessionExists as error:
                self._local[row.id] = str(error)
                host_events.note(self._context, row.id, "not_in_cluster", actor=ACTOR, why=str(error))
        return taken

    def _removed_by_owner(self, held: Held) -> None:
        """Remove a session from the cluster that was removed here, and not because it is another node's."""
        with suppress(SessionNotFound):
            found = self._store.session(held.session)
            if (found.node, found.epoch) == (self._settings.name, held.epoch):
                self._store.remove(held.session)
        session_marks.unmark(self._context, held.session)

    def _let_go(self, held: Held) -> None:
        row = self._context.store.find_session(held.session)
        if row is None:
            return
        logger.info("letting %s go, which is here under epoch %d", row.name, held.epoch)
        try:
            session_return.let_go(self._context, row, f"it continues elsewhere; epoch {held.epoch} is over")
        except HoldfastError as error:
            logger.error("cannot let %s go: %s", row.name, plain(str(error), 300))

    def _start(self, grant: SessionGrant) -> None:
        held = Held(grant.session, grant.epoch)
        logger.info("bringing %s back under epoch %d", grant.name, grant.epoch)
        try:
            row = session_return.bring_back(self._context, grant, self._settings.registry)
        except HoldfastError as error:
            why = plain(f"{error}" + (f" ({error.hint})" if error.hint else ""), 500)
            logger.error("cannot bring %s back: %s", grant.name, why)
            self._give_away(held)
            self._store.failed(self.lease.ticket, held, why)
            return
        session_marks.mark(
            self._context, row.id, grant.epoch, session_marks.loss_of(row, self._settings.loss)
        )
        self._pass_on(self.lease)
        self._store.started(self.lease.ticket, held)

    def _give_away(self, held: Held) -> None:
        """Note that the node does not have a session any more, even if a late answer grants it."""
        with self._lock:
            if self._lease is not None:
                self._lease = lease_rules.given_away(self._lease, held)

    def _copy_number(self, session: str) -> int:
        grant = self.lease.granted(session)
        return grant.copy_number if grant is not None else 0

    def release(self) -> None:
        """Give away sessions that sleep; all of them, some at a time, while the node is drained."""
        rows, releases = list(self._own().values()), self._releases
        if not rows:
            return
        if self.lease.draining:
            with ThreadPoolExecutor(session_release.AT_ONCE, "node-hand-over") as threads:
                next_ones = releases.due(rows)[: session_release.AT_ONCE]
                for done in [threads.submit(self._hand_over, row) for row in next_ones]:
                    done.result()
            return
        releases.forget_refusals()
        for row in rows:
            releases.take_back(row)
            self._attempt("put it to sleep", releases.put_to_sleep, row)

    def _hand_over(self, row: SessionRow) -> None:
        self._attempt("hand it over", self._releases.hand_over, row)

    def _attempt(self, what: str, work: Callable[[SessionRow], None], row: SessionRow) -> None:
        """Do something with a session, and log why it failed, once."""
        try:
            work(row)
        except HoldfastError as error:
            told = f"{row.name}: cannot {what}: {plain(str(error), 300)}"
            if self._unreleased.get(row.id) != told:
                self._unreleased[row.id] = told
                logger.error("%s", told)
        else:
            self._unreleased.pop(row.id, None)

    def forget_set_aside(self) -> None:
        """Remove files of sessions that were let go, once they are old."""
        session_return.forget_set_aside(self._context)

    def _tell_of_freezes(self) -> None:
        """Note in the journals of sessions that they were frozen, and that they continue."""
        frozen = node_lease.read_frozen(self.home)
        now = set(frozen.containers.values())
        for session in now - self._frozen.keys():
            self._frozen[session] = frozen.since
            self._note(session, FROZEN, why=frozen.why)
        for session in self._frozen.keys() - now:
            seconds = round(time.time() - self._frozen.pop(session), 1)
            self._note(session, THAWED, seconds=seconds)

    def _note(self, session: str, kind: str, **details: Any) -> None:
        with suppress(HoldfastError):
            if self._context.store.find_session(session) is not None:
                host_events.note(self._context, session, kind, actor=ACTOR, **details)

    # Copies.

    def replicate(self) -> None:
        """Look at sessions, and make the most urgent copy, if one is due."""
        rows = self._own()
        now = time.monotonic()
        losses = {key: session_marks.loss_of(row, self._settings.loss) for key, row in rows.items()}
        self._schedule.keep({key: loss for key, loss in losses.items() if loss > 0}, now)
        for session in self._schedule.to_look(now):
            changed = self._copies.is_changed(rows[session])
            self._schedule.looked(session, time.monotonic(), changed=changed)
        for session, age in self._schedule.newly_broken(time.monotonic()):
            why = self._undurable.get(session, "its copies take longer than that")
            self._note(session, BROKEN, seconds=round(age, 1), loss=losses[session], why=why)
            logger.error("%s: its oldest change is %.0f s old and in no copy: %s", session, age, why)
        due = self._schedule.next(time.monotonic())
        if due is not None:
            self._copy(rows[due])

    def _copy(self, row: SessionRow) -> None:
        spent = time.process_time()
        try:
            at = self._copies.make(row, self._copy_number(row.id))
        except HoldfastError as error:
            self._schedule.failed(row.id, time.monotonic())
            if self._undurable.get(row.id) != str(error):
                self._undurable[row.id] = str(error)
                logger.error("no copy of %s: %s", row.name, plain(str(error), 300))
            return
        self._undurable.pop(row.id, None)
        now = time.monotonic()
        captured_at = now - max(0.0, time.time() - at)
        if self._schedule.committed(row.id, captured_at, now, time.process_time() - spent + _ENGINE_SECONDS):
            self._note(row.id, MENDED)

    def _own(self) -> dict[str, SessionRow]:
        """Return the sessions that the node can run now, and that are neither frozen nor being given away."""
        if not self.lasts:
            return {}
        frozen = {*node_lease.read_frozen(self.home).containers.values(), *self._releases.under_way}
        found = {}
        for row in self._context.store.sessions():
            mark = row.details.cluster
            grant = self.lease.granted(row.id)
            if mark is None or grant is None or grant.epoch != mark.epoch or row.id in frozen:
                continue
            if row.state in ("running", "suspended"):
                found[row.id] = row
        return found

    def note_commands(self) -> None:
        """Tell the cluster which commands were started, so that a loss can name them."""
        for row in self._own().values():
            if row.state == "running":
                self._copies.note_commands(row)

    # Other nodes.

    def reap(self) -> float:
        """Declare nodes lost that have been silent for long enough, and place their sessions; return the
        seconds until the next look, since one that is late begins to watch again.
        """
        lease = self.lease
        if self._watch is None:
            self._watch = LostWatch(lease.terms)
        reign, sightings = self._store.sightings()
        now = node_lease.now()
        for sighting in self._watch.look(now, reign, sightings):
            if self._store.declare_lost(sighting):
                logger.warning("node %s is lost", sighting.node)
        if lease.is_settled(now):
            for changed in self._store.take_over():
                logger.info("%s is now %s (%s)", changed.name, changed.state, changed.node or changed.reason)
        return lease.terms.beat_s


_ENGINE_SECONDS = 0.45
"""Processor seconds of engine and checkpointer for a capture."""
