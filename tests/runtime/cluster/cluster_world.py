"""A cluster with a true time that no machine sees: machines, late messages, clocks that differ.

The database is real, and so are all its transactions; only time and the containers are simulated. A
container runs while it is not frozen; the keeper of its node freezes it some time after the end of the
lease. Nodes do what `lease_rules` says. `holders` is the referee, which sees everything.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from holdfast.errors import ClusterError, LeaseLost, NodeTaken
from holdfast.runtime.cluster import lease_rules
from holdfast.runtime.cluster.cluster_rows import (
    DurableCopy,
    Held,
    LeaseTerms,
    NodeOffer,
    NodeTicket,
    Renewal,
    SessionOrder,
    Sighting,
)
from holdfast.runtime.cluster.cluster_store import ClusterStore
from holdfast.runtime.cluster.lease_rules import LostWatch, NodeLease, Present

TERMS = LeaseTerms(ttl_s=30.0, beat_s=3.0, margin_s=10.0)
GIB = 1 << 30
KEPT = ("cluster", "machines", "nodes", "sessions", "copies", "notes", "events")


@dataclass
class Container:
    """A session on a node. `stops_at`: by the node's clock, when its freeze takes effect."""

    held: Held
    frozen: bool = False
    stops_at: float = float("-inf")


@dataclass
class Request:
    """A renewal on its way, and then its answer."""

    ticket: NodeTicket
    sent_at: float
    held: tuple[Held, ...]
    beat: int
    reign: int
    answer: Renewal | None = None


@dataclass
class Machine:
    """A node. Its clock began anywhere, and runs a little too fast or slow; its freeze takes a while."""

    name: str
    offset: float
    rate: float
    freeze_s: float
    boots: int = 1
    lease: NodeLease | None = None
    watch: LostWatch = field(default_factory=lambda: LostWatch(TERMS))
    here: dict[str, Container] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    suspects: list[Sighting] = field(default_factory=list)
    captures: list[tuple[NodeTicket, Held]] = field(default_factory=list)
    numbers: int = 0


class World:
    """Three machines and their database."""

    def __init__(self, dsn: str, store: ClusterStore) -> None:
        self.dsn, self.store = dsn, store
        self.now = 0.0
        self.machines = [
            Machine("n0", offset=0.0, rate=1.0, freeze_s=0.0),
            Machine("n1", offset=1e6, rate=1.01, freeze_s=5.0),
            Machine("n2", offset=-500.0, rate=0.99, freeze_s=9.0),
        ]
        self.sessions: list[str] = []
        self.replicated = False
        self.direct = psycopg.connect(dsn, autocommit=True)
        store.init(TERMS)

    def close(self) -> None:
        self.direct.close()

    # Time

    def clock(self, machine: Machine) -> float:
        """The time that a machine sees."""
        return machine.offset + self.now * machine.rate

    def pass_time(self, seconds: float) -> None:
        """Let time pass for all, the database included; keepers do their work in it."""
        self.now += seconds
        self.shift_database_clock(seconds)
        for machine in self.machines:
            self.keep(machine)

    def shift_database_clock(self, seconds: float) -> None:
        """Move the database's clock alone, by moving its recorded times the other way."""
        self.direct.execute("UPDATE holdfast_nodes SET seen = seen - make_interval(secs => %s)", (seconds,))
        self.direct.execute(
            "UPDATE holdfast_cluster SET reign_began = reign_began - make_interval(secs => %s)", (seconds,)
        )

    def keep(self, machine: Machine) -> None:
        """Freeze what is past its lease, as the keeper does without its agent."""
        ends_at = machine.lease.ends_at if machine.lease else lease_rules.NEVER
        for container in machine.here.values():
            if not container.frozen and self.clock(machine) >= ends_at:
                container.frozen, container.stops_at = True, ends_at + machine.freeze_s

    # The agent

    def register(self, machine: Machine) -> bool:
        """Start the agent; the previous one's deadline is in the keeper's hands."""
        offer = NodeOffer(machine.name, f"{machine.name}-{machine.boots}", f"http://{machine.name}", 6 * GIB)
        try:
            ticket = self.store.register(offer)
        except NodeTaken:
            return False
        until = machine.lease.ends_at if machine.lease else lease_rules.NEVER
        machine.lease = NodeLease(ticket, TERMS, ends_at=until)
        machine.watch = LostWatch(TERMS)
        return True

    def reboot(self, machine: Machine) -> None:
        """Lose every container."""
        machine.here, machine.lease = {}, None
        machine.boots += 1
        machine.watch = LostWatch(TERMS)
        machine.requests, machine.suspects, machine.captures = [], [], []

    def send(self, machine: Machine) -> None:
        if machine.lease is None:
            return
        held = tuple(container.held for container in machine.here.values())
        lease = machine.lease
        machine.requests.append(Request(lease.ticket, self.clock(machine), held, lease.beat, lease.reign))

    def deliver(self, machine: Machine, which: int) -> None:
        """Let a request reach the database, now."""
        request = machine.requests[which]
        if request.answer is not None:
            return
        try:
            request.answer = self.store.renew(
                request.ticket, request.held, beat=request.beat, reign=request.reign
            )
        except LeaseLost:
            machine.requests.pop(which)
            if machine.lease is not None and machine.lease.ticket == request.ticket:
                self.register(machine)

    def receive(self, machine: Machine, which: int) -> None:
        """Let an answer reach the node, now."""
        request = machine.requests[which]
        if request.answer is None or machine.lease is None:
            return
        machine.requests.pop(which)
        if request.ticket == machine.lease.ticket:
            now = self.clock(machine)
            machine.lease = lease_rules.renewed(machine.lease, request.sent_at, now, request.answer)
            self.act(machine)

    def renew(self, machine: Machine) -> None:
        """Do all of it in one moment."""
        if machine.lease is None and not self.register(machine):
            return
        self.send(machine)
        before = len(machine.requests)
        self.deliver(machine, before - 1)
        if len(machine.requests) == before:
            self.receive(machine, before - 1)

    def act(self, machine: Machine) -> None:
        """Do what the lease says now."""
        if machine.lease is None:
            return
        self.keep(machine)
        present = [Present(container.held, container.frozen) for container in machine.here.values()]
        duties = lease_rules.duties(machine.lease, present, self.clock(machine))
        for held in duties.run:
            machine.here[held.session].frozen = False
            machine.here[held.session].stops_at = lease_rules.NEVER
            grant = machine.lease.granted(held.session)
            if grant is not None and not grant.started:
                with suppress(LeaseLost):
                    self.store.started(machine.lease.ticket, held)
        for held in duties.freeze:
            machine.here[held.session].frozen = True
        for held in duties.let_go:
            del machine.here[held.session]
        for held in duties.disown:
            with suppress(LeaseLost):
                self.store.failed(machine.lease.ticket, held, "does not have it")
        for grant in duties.start:
            held = Held(grant.session, grant.epoch)
            machine.here[grant.session] = Container(held)
            machine.numbers = max(machine.numbers, grant.copy_number)
            try:
                self.store.started(machine.lease.ticket, held)
            except LeaseLost:
                machine.here[grant.session].frozen = True

    def observe(self, machine: Machine) -> None:
        """Read all heartbeats, and note the nodes that have been silent for too long."""
        reign, sightings = self.store.sightings()
        machine.suspects = machine.watch.look(self.clock(machine), reign, sightings)

    def take_over(self, machine: Machine) -> None:
        for suspect in machine.suspects:
            self.store.declare_lost(suspect)
        machine.suspects = []
        self.store.take_over()

    # Sessions

    def place(self, memory: int) -> None:
        name = f"s{len(self.sessions)}"
        self.sessions.append(name)
        self.store.place(SessionOrder(name, name, memory))

    def capture(self, machine: Machine, session: str) -> None:
        """Capture a session, whose commit follows later."""
        if machine.lease is not None and session in machine.here:
            machine.captures.append((machine.lease.ticket, machine.here[session].held))

    def commit(self, machine: Machine, which: int) -> None:
        """Commit a capture; the database takes it from the holder alone."""
        ticket, held = machine.captures.pop(which)
        machine.numbers += 1
        row = self.direct.execute(
            "SELECT s.node, s.epoch, n.incarnation, n.state FROM holdfast_sessions s "
            "LEFT JOIN holdfast_nodes n ON n.id = s.node WHERE s.id = %s",
            (held.session,),
        ).fetchone()
        is_holder = (
            row is not None
            and row[3] != "lost"
            and row[:3]
            == (
                machine.name,
                held.epoch,
                ticket.incarnation,
            )
        )
        copy = DurableCopy(held.session, held.epoch, machine.numbers, "snap", f"sha256:{held.epoch}")
        try:
            self.store.commit_copy(ticket, copy)
        except LeaseLost:
            assert not is_holder
        else:
            assert is_holder

    def sleep(self, machine: Machine, session: str, *, hand_over: bool, arrives: bool = True) -> None:
        """Capture a session, remove its container, and release it, of which the database possibly never
        hears.
        """
        container = machine.here.get(session)
        if container is None or container.frozen or machine.lease is None:
            return
        ticket, held = machine.lease.ticket, container.held
        machine.numbers += 1
        try:
            self.store.commit_copy(ticket, DurableCopy(session, held.epoch, machine.numbers, "snap", "ref"))
        except LeaseLost:
            return
        del machine.here[session]
        machine.lease = lease_rules.given_away(machine.lease, held)
        if not arrives:
            return
        try:
            if hand_over:
                self.store.handed_over(ticket, held)
            else:
                self.store.slept(ticket, held)
        except ClusterError:
            return  # an older copy than the database has, after a failover

    def die(self, machine: Machine, session: str, *, arrives: bool = True) -> None:
        """Have a container end on its own, which the database possibly never learns."""
        container = machine.here.pop(session, None)
        if container is None or machine.lease is None:
            return
        machine.lease = lease_rules.given_away(machine.lease, container.held)
        if not arrives:
            return
        try:
            self.store.failed(machine.lease.ticket, container.held, "its container ended")
        except LeaseLost:
            return

    # The database

    def replicate(self) -> None:
        """Let the standby receive everything up to now."""
        self.replicated = True
        for table in KEPT:
            self.direct.execute(f"DROP TABLE IF EXISTS standby_{table}".encode())
            self.direct.execute(f"CREATE UNLOGGED TABLE standby_{table} AS TABLE holdfast_{table}".encode())

    def fail_over(self) -> None:
        """Continue with the standby's data; its log is a new timeline."""
        if not self.replicated:
            return
        with self.direct.transaction():
            self.direct.execute("SET LOCAL session_replication_role = replica")
            for table in KEPT:
                self.direct.execute(f"DELETE FROM holdfast_{table}".encode())
                identity = b"OVERRIDING SYSTEM VALUE" if table == "events" else b""
                self.direct.execute(
                    b"INSERT INTO holdfast_%b %b SELECT * FROM standby_%b"
                    % (table.encode(), identity, table.encode())
                )
            self.direct.execute("UPDATE holdfast_cluster SET timeline = 'before'")

    # The referee

    def holders(self, session: str) -> list[str]:
        """The machines on which a session runs at this moment."""
        return [
            machine.name
            for machine in self.machines
            if (container := machine.here.get(session)) is not None
            and (not container.frozen or self.clock(machine) < container.stops_at)
        ]

    def settle(self) -> None:
        """Heal everything, and give it the time that the design needs."""
        for machine in self.machines:
            machine.requests = []
        for _ in range(14):
            for machine in self.machines:
                self.renew(machine)
            self.observe(self.machines[0])
            self.take_over(self.machines[0])
            self.pass_time(14.0)
        for machine in self.machines:
            self.renew(machine)
