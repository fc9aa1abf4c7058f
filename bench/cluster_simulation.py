"""Ten thousand sessions on two hundred agents over one real PostgreSQL: `python -m bench.cluster_simulation`.

Agents are objects that do what `lease_rules` says, with containers that are entries of a table; the
database, its transactions and the time are real. 5 % of the agents are killed and 5 % cut off in the same
moment. A referee outside sees everything: a session that begins to run while it runs elsewhere is counted.
`--no-freeze` is the control: agents that are cut off do not freeze, and the referee has to find them.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from holdfast.errors import ClusterError, LeaseLost
from holdfast.runtime.cluster import lease_rules
from holdfast.runtime.cluster.cluster_rows import DurableCopy, Held, LeaseTerms, NodeOffer, SessionOrder
from holdfast.runtime.cluster.cluster_store import ClusterStore
from holdfast.runtime.cluster.lease_rules import LostWatch, NodeLease, Present

GIB = 1 << 30
OBSERVERS = 5
WORKERS = 12
PLACERS = 8


@dataclass
class Figures:
    """The outcome. `twice`: beginnings of a session that ran elsewhere at that moment."""

    sessions: int
    agents: int
    ttl_s: float
    margin_s: float
    placements_per_s: float = 0.0
    place_p50_ms: float = 0.0
    place_p99_ms: float = 0.0
    waiting_at_first: int = 0
    per_node: tuple[int, int, int] = (0, 0, 0)
    hit_sessions: int = 0
    again_p50_s: float = 0.0
    again_max_s: float = 0.0
    twice: int = 0
    nowhere: int = 0
    told: int = 0
    renewals: int = 0


@dataclass(eq=False)
class Agent:
    """A node: its lease, and its sessions with their epochs and whether they are frozen."""

    name: str
    lease: NodeLease
    freezes: bool
    watch: LostWatch | None
    here: dict[str, Present] = field(default_factory=dict)
    dead: bool = False
    cut: bool = False

    def runs(self, session: str, now: float) -> bool:
        """Return whether a session of it runs now, whatever anyone knows of it."""
        present = self.here.get(session)
        if present is None or present.frozen or self.dead:
            return False
        return self.lease.lasts(now) or not self.freezes


class Simulation:
    """One cluster."""

    def __init__(self, store: ClusterStore, sessions: int, agents: int, terms: LeaseTerms, *, freezes: bool):
        self.store, self.terms = store, terms
        self.figures = Figures(sessions, agents, terms.ttl_s, terms.margin_s)
        self.lock = threading.Lock()
        self.ran_again: dict[str, float] = {}
        self.hit_at = 0.0
        self.over = threading.Event()
        store.init(terms)
        memory = -(-sessions * 2 // agents) * GIB
        self.agents = [
            self._registered(f"n{number:03}", memory, freezes, number < OBSERVERS) for number in range(agents)
        ]
        self.by_session: dict[str, set[Agent]] = {}

    def _registered(self, name: str, memory: int, freezes: bool, observes: bool) -> Agent:
        ticket = self.store.register(NodeOffer(name, f"boot-{name}", f"http://{name}", memory))
        watch = LostWatch(self.terms) if observes else None
        return Agent(name, NodeLease(ticket, self.terms), freezes, watch)

    # Agents

    def work(self, mine: list[Agent]) -> None:
        """Be some of the agents, beat by beat."""
        due = {agent: time.monotonic() + random.uniform(0, self.terms.beat_s) for agent in mine}
        while not self.over.is_set():
            agent = min(mine, key=due.__getitem__)
            if (wait := due[agent] - time.monotonic()) > 0:
                self.over.wait(wait)
                continue
            due[agent] = max(time.monotonic(), due[agent] + self.terms.beat_s)
            if agent.dead or agent.cut:
                continue
            try:
                self.beat(agent)
            except ClusterError as error:
                sys.stderr.write(f"{agent.name}: {error}\n")

    def beat(self, agent: Agent) -> None:
        """Renew, and do what the answer says."""
        sent_at = _boottime()
        held = [present.held for present in agent.here.values()]
        lease = agent.lease
        try:
            answer = self.store.renew(lease.ticket, held, beat=lease.beat, reign=lease.reign)
        except LeaseLost:
            offer = NodeOffer(agent.name, f"boot-{agent.name}", f"http://{agent.name}", 10_000 * GIB)
            ticket = self.store.register(offer)
            agent.lease = NodeLease(ticket, self.terms, ends_at=lease.ends_at)
            return
        lapsed = not lease.lasts(_boottime())
        with self.lock:
            self.figures.renewals += 1
            if lapsed and agent.freezes:
                agent.here = {name: Present(present.held, True) for name, present in agent.here.items()}
            agent.lease = lease_rules.renewed(lease, sent_at, _boottime(), answer)
            duties = lease_rules.duties(agent.lease, list(agent.here.values()), _boottime())
            for held_one in duties.let_go:
                del agent.here[held_one.session]
                self.by_session[held_one.session].discard(agent)
            for held_one in duties.freeze:
                agent.here[held_one.session] = Present(held_one, True)
            for held_one in duties.run:
                self._begins(agent, held_one)
            for grant in duties.start:
                self._begins(agent, Held(grant.session, grant.epoch))
        for grant in duties.start:
            self._started(agent, Held(grant.session, grant.epoch), grant.copy_number)
        if agent.watch is not None:
            reign, sightings = self.store.sightings()
            for lost in agent.watch.look(_boottime(), reign, sightings):
                self.store.declare_lost(lost)
            self.store.take_over()

    def _begins(self, agent: Agent, held: Held) -> None:
        """Let a session run, and see whether it runs anywhere else: the referee."""
        now = _boottime()
        others = self.by_session.setdefault(held.session, set())
        if any(other is not agent and other.runs(held.session, now) for other in others):
            self.figures.twice += 1
        others.add(agent)
        agent.here[held.session] = Present(held, False)

    def _started(self, agent: Agent, held: Held, number: int) -> None:
        try:
            self.store.started(agent.lease.ticket, held)
            copy = DurableCopy(held.session, held.epoch, number + 1, "snap", f"sha256:{held.session}")
            self.store.commit_copy(agent.lease.ticket, copy)
        except LeaseLost:
            return
        with self.lock:
            self.ran_again[held.session] = time.monotonic()

    # The course of it

    def run(self) -> Figures:
        """Place all, hit a tenth, and judge."""
        shares = [self.agents[number::WORKERS] for number in range(WORKERS)]
        workers = [
            threading.Thread(target=self.work, args=(share,), daemon=True) for share in shares if share
        ]
        for worker in workers:
            worker.start()
        try:
            self._place()
            self._until(lambda: len(self.ran_again) >= self.figures.sessions, 300, "all sessions to run")
            self._hit()
            self._judge()
        finally:
            self.over.set()
            for worker in workers:
                worker.join(30)
        return self.figures

    def _place(self) -> None:
        begun = time.monotonic()
        with ThreadPoolExecutor(PLACERS) as pool:
            took = list(pool.map(self._place_one, range(self.figures.sessions)))
        seconds = time.monotonic() - begun
        self.figures.placements_per_s = round(len(took) / seconds, 1)
        self.figures.place_p50_ms = round(statistics.median(took) * 1000, 1)
        self.figures.place_p99_ms = round(statistics.quantiles(took, n=100)[98] * 1000, 1)
        counts = [node.sessions for node in self.store.nodes()]
        self.figures.per_node = (min(counts), round(statistics.median(counts)), max(counts))

    def _place_one(self, number: int) -> float:
        begun = time.monotonic()
        placed = self.store.place(SessionOrder(f"id{number}", f"s{number}", GIB))
        if placed.node is None:
            with self.lock:
                self.figures.waiting_at_first += 1
        return time.monotonic() - begun

    def _hit(self) -> None:
        """Kill a twentieth of the agents and cut a twentieth off."""
        each = max(1, len(self.agents) // 20)
        chosen = random.sample(self.agents, 2 * each)
        with self.lock:
            self.hit_at = time.monotonic()
            hit = {session for agent in chosen for session in agent.here}
            for agent in chosen[:each]:
                agent.dead = True
            for agent in chosen[each:]:
                agent.cut = True
            self.figures.hit_sessions = len(hit)
        longest = 4 * (self.terms.ttl_s + self.terms.margin_s) + 60
        self._until(
            lambda: all(self.ran_again[s] > self.hit_at for s in hit), longest, "a place for all again"
        )
        again = sorted(self.ran_again[session] - self.hit_at for session in hit)
        self.figures.again_p50_s = round(statistics.median(again), 1)
        self.figures.again_max_s = round(again[-1], 1)
        for agent in chosen[each:]:  # the line is back
            agent.cut = False
        time.sleep(3 * self.terms.beat_s)

    def _judge(self) -> None:
        now = _boottime()
        with self.lock:
            for session in self.store.sessions():
                holders = [agent for agent in self.by_session[session.id] if agent.runs(session.id, now)]
                if session.state == "running":
                    self.figures.nowhere += not holders
                    self.figures.twice += max(0, len(holders) - 1)
                elif session.reason:
                    self.figures.told += 1
                else:
                    self.figures.nowhere += 1

    def _until(self, reached: Callable[[], bool], seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while True:
            with self.lock:
                if reached():
                    return
            if time.monotonic() > until:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}")
            time.sleep(0.2)


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def simulate(dsn: str, sessions: int, agents: int, terms: LeaseTerms, *, freezes: bool = True) -> Figures:
    """Run a simulation on an empty database, and return its figures."""
    store = ClusterStore(dsn, most_connections=WORKERS + PLACERS + 4, patience_s=15.0)
    try:
        return Simulation(store, sessions, agents, terms, freezes=freezes).run()
    finally:
        store.close()


def main(words: Iterable[str]) -> None:
    """Run it as the command line says, and print the figures."""
    from tests.machines.postgres import Postgres

    parser = argparse.ArgumentParser(prog="python -m bench.cluster_simulation")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--ttl", type=float, default=6.0)
    parser.add_argument("--beat", type=float, default=2.0)
    parser.add_argument("--margin", type=float, default=2.0)
    parser.add_argument("--no-freeze", action="store_true")
    chosen = parser.parse_args(list(words))
    terms = LeaseTerms(chosen.ttl, chosen.beat, chosen.margin)
    with Postgres(durable=True) as server:
        figures = simulate(server.dsn, chosen.sessions, chosen.agents, terms, freezes=not chosen.no_freeze)
    print(json.dumps(asdict(figures), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
