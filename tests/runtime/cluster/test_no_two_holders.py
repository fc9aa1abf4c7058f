"""Schedules of a cluster: late and lost messages, cuts, restarts, reboots, clocks that jump, failovers.

Whichever schedule hypothesis finds: a session never runs on two machines at one moment, a commit is taken
from the holder alone, and in the end each session has a place or a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.machines.postgres import Postgres
from tests.runtime.cluster.cluster_world import GIB, Machine, World
from tests.runtime.cluster.conftest import emptied

from holdfast.runtime.cluster.cluster_store import ClusterStore

MACHINES = st.integers(0, 2)
SESSIONS = st.integers(0, 3)
WHICH = st.integers(0, 5)


class Cluster(RuleBasedStateMachine):
    """One schedule."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        emptied(dsn)
        self.store = ClusterStore(dsn)
        self.world = World(dsn, self.store)

    @initialize()
    def begin(self) -> None:
        """Begin with three nodes and a session that runs."""
        for machine in self.world.machines:
            self.world.renew(machine)
        self.world.place(2 * GIB)
        for machine in self.world.machines:
            self.world.renew(machine)

    @rule(alive=st.frozensets(MACHINES), seconds=st.sampled_from([1.0, 8.0, 14.0]), times=st.integers(1, 4))
    def rounds(self, alive: frozenset[int], seconds: float, times: int) -> None:
        """Some machines work as they should for a while; the others are cut off or paused."""
        for _ in range(times):
            for index in alive:
                machine = self.world.machines[index]
                self.world.renew(machine)
                self.check()
            for index in sorted(alive)[:1]:
                self.world.observe(self.world.machines[index])
                self.world.take_over(self.world.machines[index])
            self.world.pass_time(seconds)
            self.check()

    @rule(seconds=st.sampled_from([0.5, 3.0, 29.0, 41.0, 600.0]))
    def wait(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(seconds=st.sampled_from([-3600.0, -20.0, 20.0, 3600.0]))
    def database_clock_jumps(self, seconds: float) -> None:
        self.world.shift_database_clock(seconds)

    @rule(index=MACHINES)
    def send(self, index: int) -> None:
        self.world.send(self.world.machines[index])

    @rule(index=MACHINES, which=WHICH)
    def deliver(self, index: int, which: int) -> None:
        machine = self.world.machines[index]
        if machine.requests:
            self.world.deliver(machine, which % len(machine.requests))

    @rule(index=MACHINES, which=WHICH)
    def receive(self, index: int, which: int) -> None:
        machine = self.world.machines[index]
        if machine.requests:
            self.world.receive(machine, which % len(machine.requests))

    @rule(index=MACHINES)
    def act(self, index: int) -> None:
        self.world.act(self.world.machines[index])

    @rule(index=MACHINES)
    def observe(self, index: int) -> None:
        self.world.observe(self.world.machines[index])

    @rule(index=MACHINES)
    def take_over(self, index: int) -> None:
        self.world.take_over(self.world.machines[index])

    @rule(index=MACHINES)
    def restart_agent(self, index: int) -> None:
        self.world.register(self.world.machines[index])

    @rule(index=MACHINES)
    def reboot(self, index: int) -> None:
        self.world.reboot(self.world.machines[index])

    @rule(memory=st.sampled_from([GIB, 4 * GIB]))
    def place(self, memory: int) -> None:
        if len(self.world.sessions) < 4:
            self.world.place(memory)

    @rule(which=SESSIONS)
    def wake(self, which: int) -> None:
        if (session := self._existing(which)) is not None:
            self.store.wake(session)

    @rule(which=SESSIONS)
    def remove(self, which: int) -> None:
        if (session := self._existing(which)) is not None:
            self.store.remove(session)

    @rule(index=MACHINES, which=SESSIONS)
    def capture(self, index: int, which: int) -> None:
        if which < len(self.world.sessions):
            self.world.capture(self.world.machines[index], self.world.sessions[which])

    @rule(index=MACHINES, which=WHICH)
    def commit(self, index: int, which: int) -> None:
        machine = self.world.machines[index]
        if machine.captures:
            self.world.commit(machine, which % len(machine.captures))

    @rule(index=MACHINES, which=SESSIONS, hand_over=st.booleans(), arrives=st.booleans())
    def sleep(self, index: int, which: int, *, hand_over: bool, arrives: bool) -> None:
        if which < len(self.world.sessions):
            machine, session = self.world.machines[index], self.world.sessions[which]
            self.world.sleep(machine, session, hand_over=hand_over, arrives=arrives)

    @rule(index=MACHINES, which=SESSIONS, arrives=st.booleans())
    def die(self, index: int, which: int, *, arrives: bool) -> None:
        if which < len(self.world.sessions):
            self.world.die(self.world.machines[index], self.world.sessions[which], arrives=arrives)

    @rule()
    def replicate(self) -> None:
        self.world.replicate()

    @rule()
    def fail_over(self) -> None:
        self.world.fail_over()

    @invariant()
    def check(self) -> None:
        """The referee: at this moment."""
        for session in self.world.sessions:
            assert len(self.world.holders(session)) <= 1, (session, self.world.holders(session))

    def teardown(self) -> None:
        """Each session has a place or a reason, and the sums of the nodes are right."""
        try:
            self.world.settle()
            self.check()
            check_places(self.world, self.store)
            for node in self.store.nodes():
                theirs = self.store.sessions(node=node.id)
                assert node.sessions == len(theirs)
                assert node.reserved_bytes == sum(each.memory_bytes for each in theirs)
        finally:
            self.world.close()
            self.store.close()

    def _existing(self, which: int) -> str | None:
        known = {session.id for session in self.store.sessions()}
        present = [session for session in self.world.sessions if session in known]
        return present[which % len(present)] if present else None


def check_places(world: World, store: ClusterStore) -> None:
    """Each session runs where the database says, or there is a reason."""
    for session in store.sessions():
        holders = world.holders(session.id)
        if session.state == "running":
            assert holders == [session.node]
        else:
            assert holders == []
            assert session.state == "asleep" or session.reason
            assert session.state != "starting"


def _run(dsn: str, examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(partial(Cluster, dsn), settings=chosen)  # type: ignore[arg-type]


def test_no_schedule_makes_a_session_run_twice(postgres: Postgres) -> None:
    """A dozen schedules keep all that the module's text promises."""
    _run(postgres.dsn, 12, 25)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_no_long_schedule_makes_a_session_run_twice(postgres: Postgres) -> None:
    """So do a hundred longer ones."""
    _run(postgres.dsn, 100, 40)


@pytest.fixture
def world(postgres: Postgres) -> Iterator[World]:
    """Three nodes that have registered, and one session, which runs on one of them."""
    emptied(postgres.dsn)
    store = ClusterStore(postgres.dsn)
    made = World(postgres.dsn, store)
    for machine in made.machines:
        made.renew(machine)
    made.place(2 * GIB)
    for machine in made.machines:
        made.renew(machine)
    yield made
    made.close()
    store.close()


def _holder(world: World) -> Machine:
    (name,) = world.holders("s0")
    return next(machine for machine in world.machines if machine.name == name)


@pytest.mark.parametrize("hand_over", [True, False], ids=["handed over", "asleep"])
def test_a_release_that_never_arrives_is_told_again(world: World, *, hand_over: bool) -> None:
    """The node has removed its container, the database still names the node: the session gets a place."""
    world.sleep(_holder(world), "s0", hand_over=hand_over, arrives=False)
    assert world.holders("s0") == []
    world.settle()
    check_places(world, world.store)
    assert world.store.session("s0").state == "running"


def test_a_release_that_the_database_forgot_is_told_again(world: World) -> None:
    """A standby that has not received it takes over: a session released under that epoch is placed again."""
    holder = _holder(world)
    world.capture(holder, "s0")
    world.commit(holder, 0)
    world.replicate()
    world.sleep(holder, "s0", hand_over=False)
    assert world.store.session("s0").state == "asleep"
    world.fail_over()
    assert world.store.session("s0").node == holder.name
    world.settle()
    check_places(world, world.store)
    assert world.store.session("s0").state == "running"


def test_a_release_that_the_database_refuses_is_told_again(world: World) -> None:
    """After a failover its copy can be older than the database's."""
    holder = _holder(world)
    holder.numbers = 5
    world.capture(holder, "s0")
    world.commit(holder, 0)
    world.direct.execute("UPDATE holdfast_copies SET epoch = 0")
    holder.numbers = 1
    world.sleep(holder, "s0", hand_over=True)
    assert world.store.session("s0").node == holder.name
    world.settle()
    check_places(world, world.store)
    assert world.store.session("s0").state == "running"


def test_a_renewal_that_arrives_after_the_container_has_ended(world: World) -> None:
    """It says that the node has the session, which it then gets back from the database without having it."""
    holder = _holder(world)
    for machine in world.machines:
        if machine is not holder:
            world.reboot(machine)  # none is there to take it
    observer = next(machine for machine in world.machines if machine is not holder)
    for _ in range(5):
        world.observe(observer)
        world.pass_time(14.0)
    world.take_over(observer)
    assert world.store.session("s0").node is None
    world.register(holder)
    world.send(holder)
    world.die(holder, "s0")
    world.deliver(holder, 0)
    assert world.store.session("s0").node == holder.name
    world.receive(holder, 0)
    world.settle()
    check_places(world, world.store)


def test_a_reign_never_has_the_number_of_one_that_was_forgotten(world: World) -> None:
    """Two standbys of the same state take over one after the other: a node that has seen the first reign
    must see that the second is different.
    """
    world.replicate()
    world.fail_over()
    machine = world.machines[0]
    world.renew(machine)
    assert machine.lease is not None
    first = machine.lease.reign
    world.pass_time(100.0)
    world.fail_over()
    world.renew(machine)
    assert machine.lease.reign > first
    assert not machine.lease.is_settled(world.clock(machine))
