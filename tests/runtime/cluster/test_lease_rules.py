"""The arithmetic of leases: each case is a way in which two machines could run one session."""

from __future__ import annotations

from holdfast.runtime.cluster import lease_rules
from holdfast.runtime.cluster.cluster_rows import (
    Held,
    LeaseTerms,
    NodeTicket,
    Renewal,
    SessionGrant,
    Sighting,
)
from holdfast.runtime.cluster.lease_rules import LostWatch, NodeLease, Present

TERMS = LeaseTerms(ttl_s=30.0, beat_s=3.0, margin_s=10.0)
INFINITE = float("inf")


def granted(session: str, epoch: int, *, started: bool = True) -> SessionGrant:
    return SessionGrant(session, session, epoch, started, 1, {}, 0)


def answered(beat: int, *grants: SessionGrant, reign: int = 1, age: float = INFINITE) -> Renewal:
    return Renewal(beat, reign, age, "ready", TERMS, tuple(grants))


def leased(*grants: SessionGrant) -> NodeLease:
    """A lease that began at 100 and ends at 130."""
    begun = NodeLease(NodeTicket("a", 1), TERMS)
    return lease_rules.renewed(begun, 100.0, 101.0, answered(1, *grants))


def test_a_lease_counts_from_before_the_question() -> None:
    """However late the answer arrives: one that took longer than the lease permits nothing."""
    lease = lease_rules.renewed(NodeLease(NodeTicket("a", 1), TERMS), 100.0, 500.0, answered(1))
    assert lease.ends_at == 130.0
    assert not lease.lasts(500.0)


def test_at_the_end_of_its_lease_a_node_freezes_everything() -> None:
    """Sessions granted by the last answer are frozen at that moment, and nothing is removed or started."""
    lease = leased(granted("s", 1), granted("t", 1, started=False))
    present = [Present(Held("s", 1), False)]
    assert lease_rules.duties(lease, present, 129.9).run == (Held("s", 1),)
    late = lease_rules.duties(lease, present, 130.0)
    assert (late.run, late.freeze, late.let_go, late.start) == ((), (Held("s", 1),), (), ())


def test_an_older_answer_changes_nothing() -> None:
    """Answers can overtake each other; a right that a later one took away does not return."""
    newer = lease_rules.renewed(leased(granted("s", 1)), 110.0, 112.0, answered(3))
    older = lease_rules.renewed(newer, 105.0, 113.0, answered(2, granted("s", 1)))
    assert older == newer


def test_a_late_answer_does_not_start_a_session_given_away() -> None:
    """The database answered before the session was released; the node starts it under a later epoch only."""
    lease = lease_rules.given_away(leased(granted("s", 4)), Held("s", 4))
    assert lease_rules.duties(lease, [], 110.0).start == ()
    late = lease_rules.renewed(lease, 110.0, 111.0, answered(2, granted("s", 4)))
    assert lease_rules.duties(late, [], 112.0).start == ()
    assert lease_rules.duties(late, [], 112.0).disown == (Held("s", 4),)
    again = lease_rules.renewed(late, 113.0, 114.0, answered(3, granted("s", 6, started=False)))
    assert [grant.epoch for grant in lease_rules.duties(again, [], 115.0).start] == [6]


def test_a_session_that_ran_here_and_is_not_here_is_disowned() -> None:
    """It cannot begin a second time: the database gives it away, once its rows can be trusted."""
    lease = leased(granted("s", 4), granted("t", 2, started=False))
    found = lease_rules.duties(lease, [], 110.0)
    assert (found.disown, [each.session for each in found.start]) == ((Held("s", 4),), ["t"])
    assert lease_rules.duties(lease, [], 131.0).disown == ()
    assert lease_rules.duties(lease, [Present(Held("s", 3), True)], 110.0).disown == ()
    unsettled = lease_rules.renewed(lease, 112.0, 113.0, answered(2, granted("s", 4), reign=2))
    assert lease_rules.duties(unsettled, [], 114.0).disown == ()


def test_in_a_new_reign_nothing_begins_and_running_sessions_continue() -> None:
    """For a lease and a margin, by the node's own clock: no start, no thaw, no removal."""
    lease = lease_rules.renewed(
        leased(granted("runs", 1), granted("frozen", 1)),
        110.0,
        111.0,
        answered(1, granted("runs", 1), granted("frozen", 1), granted("new", 1), reign=2, age=0.0),
    )
    present = [
        Present(Held("runs", 1), False),
        Present(Held("frozen", 1), True),
        Present(Held("other", 1), False),
    ]
    duties = lease_rules.duties(lease, present, 139.0)
    assert duties.run == (Held("runs", 1),)
    assert set(duties.freeze) == {Held("frozen", 1), Held("other", 1)}
    assert (duties.let_go, duties.start) == ((), ())
    lease = lease_rules.renewed(lease, 140.0, 141.0, answered(2, granted("frozen", 1), reign=2, age=29.0))
    assert not lease.is_settled(150.9)
    assert lease.is_settled(151.0)


def test_a_node_that_joins_an_old_reign_begins_immediately() -> None:
    """It has the database's word for the age; a young reign makes it wait for the rest."""
    begun = NodeLease(NodeTicket("a", 1), TERMS)
    assert lease_rules.renewed(begun, 0.0, 1.0, answered(1, reign=5, age=1000.0)).is_settled(1.0)
    young = lease_rules.renewed(begun, 0.0, 1.0, answered(1, reign=5, age=15.0))
    assert not young.is_settled(25.9)
    assert young.is_settled(26.0)


def test_an_earlier_epoch_leaves_before_the_next_one_begins() -> None:
    """A session that returns to the same node under a new epoch starts once the old container is removed."""
    lease = leased(granted("s", 2, started=False))
    first = lease_rules.duties(lease, [Present(Held("s", 1), True)], 110.0)
    assert (first.let_go, first.start) == ((Held("s", 1),), ())
    assert len(lease_rules.duties(lease, [], 110.0).start) == 1


def test_a_heartbeat_is_lost_after_lease_and_margin_of_watching() -> None:
    """Not a moment sooner, and from the beginning again when it changes."""
    watch, seen = LostWatch(TERMS), Sighting("a", 1, 7)
    assert [watch.look(float(now), 1, [seen]) for now in (0, 13, 26, 39)] == [[], [], [], []]
    assert watch.look(40.0, 1, [seen]) == [seen]
    assert watch.look(41.0, 1, [Sighting("a", 1, 8)]) == []
    assert watch.look(50.0, 1, [Sighting("a", 1, 8)]) == []


def test_returning_viewers_watch_from_the_beginning() -> None:
    """After a longer pause of the observer or the database, or in a new reign, all get the time to return."""
    for pause, reign in ((60.0, 1), (10.0, 2)):
        watch, seen = LostWatch(TERMS), Sighting("a", 1, 7)
        for now in (0.0, 10.0, 20.0, 30.0):
            watch.look(now, 1, [seen])
        assert watch.look(30.0 + pause, reign, [seen]) == []
