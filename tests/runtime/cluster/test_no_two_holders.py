"""Schedules of a cluster: late and lost messages, cuts, restarts, reboots, clocks that jump, failovers.

Whichever schedule hypothesis finds: a session never runs on two machines at one moment, a commit is taken
from the holder alone, and in the end each session has a place or a reason.
"""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.machines.postgres import Postgres
from tests.runtime.cluster.cluster_world import GIB, World
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

    @rule(index=MACHINES, which=SESSIONS, hand_over=st.booleans())
    def sleep(self, index: int, which: int, *, hand_over: bool) -> None:
        if which < len(self.world.sessions):
            self.world.sleep(self.world.machines[index], self.world.sessions[which], hand_over=hand_over)

    @rule(index=MACHINES, which=SESSIONS)
    def die(self, index: int, which: int) -> None:
        if which < len(self.world.sessions):
            self.world.die(self.world.machines[index], self.world.sessions[which])

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
            for session in self.store.sessions():
                holders = self.world.holders(session.id)
                if session.state == "running":
                    assert holders == [session.node]
                else:
                    assert holders == []
                    assert session.state == "asleep" or session.reason
                    assert session.state != "starting"
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
