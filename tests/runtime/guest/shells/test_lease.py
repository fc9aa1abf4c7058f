from __future__ import annotations

import contextlib
import random

import pytest

from holdfast.runtime.guest.shells.lease import GRACE, Change, LeaseChange, LeaseHeld, ShellLease

ALICE, BOB, AGENT = "person:alice", "person:bob", "agent:one"


def actions(changes: list[Change]) -> list[LeaseChange]:
    return [change.action for change in changes]


def test_a_free_lease_lets_everyone_type() -> None:
    """No one needs to take it."""
    assert ShellLease().allows(AGENT)


def test_one_holder_at_a_time() -> None:
    """The second one learns who holds it and since when; the holder's own actions pass."""
    lease = ShellLease()
    [change] = lease.take(ALICE, 5.0, token="a")

    assert (change.action, change.holder, change.before) == (LeaseChange.TAKE, ALICE, None)
    assert lease.allows(ALICE)
    with pytest.raises(LeaseHeld) as held:
        lease.take(BOB, 6.0, token="b")
    assert (held.value.holder, held.value.since) == (ALICE, 5.0)
    with pytest.raises(LeaseHeld):
        lease.require(AGENT)
    with pytest.raises(LeaseHeld):
        lease.give_back(BOB)


def test_a_lease_ends_with_the_last_connection_of_its_holder() -> None:
    """Two terminals of one person share it; a lost connection counts as the end of it."""
    lease = ShellLease()
    lease.take(ALICE, 1.0, token="a")
    assert lease.take(ALICE, 2.0, token="b") == []

    assert lease.left("a", lost=False) == []
    assert actions(lease.left("b", lost=True)) == [LeaseChange.LOST]
    assert lease.holder is None
    assert lease.left("b", lost=True) == []


def test_a_lease_for_a_time_outlives_connections_and_then_ends() -> None:
    """One that was taken with a time is kept by it, not by a connection."""
    lease = ShellLease()
    lease.take(ALICE, 0.0, until=10.0)
    lease.take(ALICE, 1.0, token="a")

    assert lease.left("a", lost=False) == []
    assert lease.wake_at == 10.0
    assert lease.tick(9.9) == []
    assert actions(lease.tick(10.0)) == [LeaseChange.EXPIRE]
    assert lease.holder is None


def test_a_connection_keeps_it_beyond_its_time() -> None:
    """The time ends while the person is attached: the lease stays until the connection ends as well."""
    lease = ShellLease()
    lease.take(ALICE, 0.0, until=10.0)
    lease.take(ALICE, 1.0, token="a")

    assert lease.tick(11.0) == []
    assert actions(lease.left("a", lost=False)) == [LeaseChange.RETURN]


def test_only_its_holder_hands_it_over() -> None:
    """The next holder keeps it by the connections it has, or for a time."""
    lease = ShellLease()
    lease.take(ALICE, 0.0, token="a")
    with pytest.raises(LeaseHeld):
        lease.give(BOB, AGENT, 1.0, until=60.0, tokens=set())

    [change] = lease.give(ALICE, BOB, 2.0, until=60.0, tokens={"b"})
    assert (change.holder, change.before, lease.since) == (BOB, ALICE, 2.0)
    assert lease.wake_at is None
    assert lease.left("a", lost=False) == []
    assert actions(lease.left("b", lost=False)) == [LeaseChange.RETURN]

    lease.give(BOB, AGENT, 3.0, until=60.0, tokens=set())
    assert lease.until == 60.0


def test_force_takes_it_from_any_holder() -> None:
    """And the change says from whom."""
    lease = ShellLease()
    lease.take(AGENT, 0.0, until=100.0)

    [change] = lease.take(ALICE, 1.0, token="a", force=True)

    assert (change.action, change.holder, change.before) == (LeaseChange.FORCE, ALICE, AGENT)
    assert lease.until is None
    assert lease.tick(200.0) == []


def test_after_a_capture_the_holder_comes_back_first() -> None:
    """The cut connection does not return the lease: for a while no one else can take it, then it is free."""
    lease = ShellLease()
    lease.take(ALICE, 0.0, token="a")
    lease.cut()
    assert lease.left("a", lost=True) == []
    assert lease.woken(50.0, copy=False) == []

    with pytest.raises(LeaseHeld):
        lease.take(BOB, 50.1, token="b")
    assert lease.take(ALICE, 50.2, token="a") == []
    assert lease.tick(50.0 + GRACE) == []
    assert lease.holder == ALICE

    lease.cut()
    lease.woken(100.0, copy=False)
    assert actions(lease.tick(100.0 + GRACE)) == [LeaseChange.LOST]
    assert lease.holder is None


def test_a_copy_has_no_holder() -> None:
    """A fork's shell is free, regardless of its parent's holder."""
    lease = ShellLease()
    lease.take(ALICE, 0.0, token="a", until=100.0)
    lease.cut()

    assert actions(lease.woken(5.0, copy=True)) == [LeaseChange.LOST]
    assert lease.allows(AGENT)


def test_use_is_noted() -> None:
    """When the holder was last seen working tells an idle lease from a busy one."""
    lease = ShellLease()
    lease.take(ALICE, 1.0, token="a")
    lease.used(AGENT, 5.0)
    assert lease.active == 1.0
    lease.used(ALICE, 6.0)
    assert lease.active == 6.0


def test_a_held_lease_always_has_something_that_keeps_it() -> None:
    """After any steps, a holder has a connection, a time or a grace: none is forever."""
    rng = random.Random(7)
    for _ in range(300):
        lease, now = ShellLease(), 0.0
        for _ in range(40):
            now += rng.random() * 3
            with contextlib.suppress(LeaseHeld):
                step(lease, rng, now)
        for token in "abc":
            lease.left(token, lost=True)
        lease.tick(now + 1000)
        assert lease.holder is None


def step(lease: ShellLease, rng: random.Random, now: float) -> None:
    actor, token = rng.choice((ALICE, BOB, AGENT)), rng.choice("abc")
    match rng.randrange(7):
        case 0:
            lease.take(actor, now, token=token, force=rng.random() < 0.3)
        case 1:
            lease.take(actor, now, until=now + rng.random() * 10)
        case 2:
            lease.left(token, lost=True)
        case 3:
            lease.cut()
            lease.woken(now, copy=rng.random() < 0.3)
        case 4:
            lease.give(actor, rng.choice((ALICE, BOB)), now, until=now + 5, tokens=set())
        case 5:
            lease.give_back(actor)
        case _:
            lease.tick(now)
