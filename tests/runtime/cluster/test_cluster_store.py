"""The store of a cluster: callers at the same moment, stale nodes, hostile names, failing PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.machines.postgres import Postgres

from holdfast.errors import (
    ClusterError,
    ClusterUnavailable,
    LeaseLost,
    NodeTaken,
    SessionExists,
    SessionNotFound,
)
from holdfast.runtime.cluster.cluster_rows import (
    CommandNote,
    DurableCopy,
    Held,
    LeaseTerms,
    NodeOffer,
    NodeTicket,
    SessionOrder,
)
from holdfast.runtime.cluster.cluster_store import ClusterStore
from holdfast.snapshots.fitness import Here, Needs
from holdfast.snapshots.machine import MachineFeatures

GIB = 1 << 30


def registered(store: ClusterStore, *names: str, here: Here | None = None) -> dict[str, NodeTicket]:
    return {
        name: store.register(NodeOffer(name, f"boot-{name}", f"http://{name}", 8 * GIB, here=here or Here()))
        for name in names
    }


def running(store: ClusterStore, tickets: dict[str, NodeTicket], session: str) -> tuple[NodeTicket, Held]:
    """Place a session, and have its node start it."""
    placed = store.place(SessionOrder(session, session, GIB))
    assert placed.node is not None
    ticket, held = tickets[placed.node], Held(session, placed.epoch)
    store.started(ticket, held)
    return ticket, held


def lose(store: ClusterStore, node: str) -> None:
    _, sightings = store.sightings()
    assert store.declare_lost(next(each for each in sightings if each.node == node))


def test_one_of_many_waking_callers_places_a_session(store: ClusterStore) -> None:
    """All get the same node and the same epoch, and the node counts it once."""
    tickets = registered(store, "a", "b", "c")
    ticket, held = running(store, tickets, "work")
    store.commit_copy(ticket, DurableCopy("work", held.epoch, 1, "snap", "sha256:1"))
    store.slept(ticket, held)
    with ThreadPoolExecutor(8) as pool:
        woken = list(pool.map(lambda _: store.wake("work"), range(16)))
    assert {(each.node, each.epoch) for each in woken} == {(woken[0].node, 2)}
    assert sum(node.sessions for node in store.nodes()) == 1


def test_a_key_makes_one_session_however_many_ask(store: ClusterStore) -> None:
    """The same key is the same session; a taken name without it is refused."""
    registered(store, "a")
    with ThreadPoolExecutor(8) as pool:
        orders = [SessionOrder(f"id{n}", f"name{n}", GIB, key="once") for n in range(16)]
        made = list(pool.map(store.place, orders))
    assert len({each.id for each in made}) == 1
    with pytest.raises(SessionExists):
        store.place(SessionOrder("other", made[0].name, GIB))


def test_callers_at_the_same_moment_never_overfill_a_node(store: ClusterStore) -> None:
    """Of twenty sessions of 1 GiB, two nodes with 8 GiB take sixteen; the others hear why."""
    registered(store, "a", "b")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: store.place(SessionOrder(f"s{n}", f"s{n}", GIB)), range(20)))
    assert [node.reserved_bytes for node in store.nodes()] == [8 * GIB, 8 * GIB]
    waiting = [each for each in made if each.state == "waiting_for_node"]
    assert len(waiting) == 4
    assert all("0.0 GiB free, it needs 1.0 GiB" in each.reason for each in waiting)
    store.remove(next(each.id for each in made if each.node))
    assert [each.state for each in store.take_over() if each.node] == ["starting"]


def test_a_stale_node_changes_nothing(store: ClusterStore) -> None:
    """Once a session was taken over, its former node cannot commit, note, release or start it."""
    tickets = registered(store, "a", "b")
    ticket, held = running(store, tickets, "work")
    store.commit_copy(ticket, DurableCopy("work", held.epoch, 1, "snap", "sha256:1"))
    lose(store, ticket.node)
    [moved] = store.take_over()
    assert moved.node not in (None, ticket.node)
    assert moved.epoch == held.epoch + 1
    with pytest.raises(LeaseLost):
        store.renew(ticket, [held], beat=1, reign=1)
    with pytest.raises(LeaseLost):
        store.commit_copy(ticket, DurableCopy("work", held.epoch, 2, "snap", "sha256:2"))
    again = store.register(NodeOffer(ticket.node, f"boot-{ticket.node}", "http://again", 8 * GIB))
    for change in (
        lambda: store.commit_copy(again, DurableCopy("work", held.epoch, 2, "snap", "sha256:2")),
        lambda: store.note_commands(again, held, [CommandNote(1, "ls")]),
        lambda: store.slept(again, held),
        lambda: store.started(again, Held("work", moved.epoch)),
        lambda: store.failed(again, held, "mine"),
    ):
        with pytest.raises(LeaseLost):
            change()
    assert store.copies_in_use() == ["sha256:1"]
    assert [grant.session for grant in store.renew(again, [held], beat=0, reign=0).grants] == []


def test_an_older_copy_never_replaces_a_newer_one(store: ClusterStore) -> None:
    """A commit that arrives late, or twice, does nothing."""
    tickets = registered(store, "a")
    ticket, held = running(store, tickets, "work")
    for number in (2, 1, 2):
        store.commit_copy(ticket, DurableCopy("work", held.epoch, number, "snap", f"sha256:{number}"))
    assert store.copies_in_use() == ["sha256:2"]


def test_a_loss_names_the_commands_after_the_copy(store: ClusterStore) -> None:
    """The new node is notified before it starts, and the event says it afterwards."""
    tickets = registered(store, "a", "b")
    ticket, held = running(store, tickets, "work")
    store.note_commands(ticket, held, [CommandNote(1, "make"), CommandNote(2, "make test", "key-2")])
    copy = DurableCopy("work", held.epoch, 1, "snap", "sha256:1", journal_seq=1, captured_age_s=20.0)
    store.commit_copy(ticket, copy)
    lose(store, ticket.node)
    [moved] = store.take_over()
    assert moved.node is not None
    [grant] = store.renew(tickets[moved.node], [], beat=0, reign=0).grants
    assert grant.recovery is not None
    assert [note["key"] for note in grant.recovery["commands"]] == ["key-2"]
    store.started(tickets[moved.node], Held("work", moved.epoch))
    recovered = store.events("work")[-1]
    assert recovered.kind == "recovered"
    assert recovered.details["commands"] == [{"seq": 2, "text": "make test", "key": "key-2"}]
    assert recovered.details["at_most_s"] == pytest.approx(recovered.details["lost_s"] + 30.0)


def test_without_a_copy_a_session_is_lost_by_name_and_returns_with_its_machine(store: ClusterStore) -> None:
    """No other node gets it; the node that still has it, frozen, gets it back under the same epoch."""
    tickets = registered(store, "a", "b")
    ticket, held = running(store, tickets, "work")
    lose(store, ticket.node)
    [lost] = store.take_over()
    assert (lost.state, lost.node) == ("lost", None)
    assert "nothing durable was kept" in lost.reason
    assert f"it returns if {ticket.node} does" in lost.reason
    assert store.wake("work").state == "lost"
    again = store.register(NodeOffer(ticket.node, f"boot-{ticket.node}", "http://again", 8 * GIB))
    [grant] = store.renew(again, [held], beat=0, reign=0).grants
    assert (grant.session, grant.epoch, grant.started) == ("work", held.epoch, True)


def test_a_restarted_machine_waits_until_its_name_is_lost(store: ClusterStore) -> None:
    """Another boot is possibly another machine: it cannot take the place of one that can still run."""
    tickets = registered(store, "a", "b")
    ticket, held = running(store, tickets, "work")
    store.commit_copy(ticket, DurableCopy("work", held.epoch, 1, "snap", "sha256:1"))
    offer = NodeOffer(ticket.node, "another boot", "http://new", 8 * GIB)
    with pytest.raises(NodeTaken):
        store.register(offer)
    lose(store, ticket.node)
    store.register(offer)
    assert store.session("work").state == "waiting_for_node"
    assert [each.state for each in store.take_over()] == ["starting"]


def test_of_two_agents_of_one_node_the_later_counts(store: ClusterStore) -> None:
    """The earlier one's renewals are refused."""
    first = registered(store, "a")["a"]
    second = registered(store, "a")["a"]
    with pytest.raises(LeaseLost):
        store.renew(first, [], beat=0, reign=0)
    assert store.renew(second, [], beat=0, reign=0).beat == 1


def test_a_renewal_between_sighting_and_verdict_saves_a_node(store: ClusterStore) -> None:
    """Only the heartbeat that was seen can be declared lost."""
    ticket = registered(store, "a")["a"]
    _, [sighting] = store.sightings()
    store.renew(ticket, [], beat=0, reign=0)
    assert not store.declare_lost(sighting)


def test_three_nodes_that_fail_to_start_a_session_end_the_attempts(store: ClusterStore) -> None:
    """Each is another node; the reason of the last is kept."""
    tickets = registered(store, "a", "b", "c", "d")
    session = store.place(SessionOrder("work", "work", GIB))
    tried = []
    while session.node is not None:
        tried.append(session.node)
        session = store.failed(tickets[session.node], Held("work", session.epoch), "CRIU said no")
    assert len(set(tried)) == 3
    assert session.state == "lost"
    assert session.reason == f"3 nodes could not start it; the last was {tried[-1]}: CRIU said no"


def test_a_drained_node_hands_over_and_gets_nothing(store: ClusterStore) -> None:
    """Its sessions go to others; undrained, it is chosen again."""
    tickets = registered(store, "a", "b")
    ticket, held = running(store, tickets, "work")
    store.drain(ticket.node)
    assert store.renew(ticket, [held], beat=0, reign=0).state == "draining"
    with pytest.raises(ClusterError):
        store.handed_over(ticket, held)  # nothing of this epoch is durable
    store.commit_copy(ticket, DurableCopy("work", held.epoch, 1, "snap", "sha256:1"))
    moved = store.handed_over(ticket, held)
    assert moved.node not in (None, ticket.node)
    assert store.place(SessionOrder("next", "next", GIB)).node == moved.node
    store.undrain(ticket.node)
    assert {node.state for node in store.nodes()} == {"ready"}


def test_a_snapshot_goes_only_where_its_processor_is(store: ClusterStore) -> None:
    """The ladder is the filter, and its reason is the reason."""
    plain = Here(machine=MachineFeatures(arch="x86_64", cpu=["sse2"]))
    wide = Here(machine=MachineFeatures(arch="x86_64", cpu=["sse2", "avx512f"]))
    registered(store, "plain", here=plain)
    needs = Needs(live=True, machine=MachineFeatures(arch="x86_64", cpu=["sse2", "avx512f"]))
    waiting = store.place(SessionOrder("work", "work", GIB, needs=needs))
    assert waiting.state == "waiting_for_node"
    assert "plain: this processor lacks avx512f" in waiting.reason
    registered(store, "wide", here=wide)
    assert [each.node for each in store.take_over()] == ["wide"]


@pytest.mark.parametrize("text", ["'; DROP TABLE holdfast_nodes; --", "%s", "\\", "$$", "ü\u202e", '"', "{}"])
def test_names_and_texts_are_values_and_never_statements(store: ClusterStore, text: str) -> None:
    """Whatever callers and sessions write comes back as it was, or cleaned for a terminal."""
    ticket = registered(store, "a")["a"]
    placed = store.place(SessionOrder(text, text, GIB, options={text: text}, key=text))
    held = Held(text, placed.epoch)
    store.started(ticket, held)
    store.note_commands(ticket, held, [CommandNote(1, text + "\0\x1b[2J", text)])
    store.commit_copy(ticket, DurableCopy(text, placed.epoch, 1, text, text))
    assert store.route(text).session == text
    assert store.session(text).options == {text: text}
    assert store.failed(ticket, held, text).state == "starting"
    assert store.events(text)[-1].kind == "placed"
    with pytest.raises(ClusterError):
        store.drain(text)
    assert len(store.nodes()) == 1


def test_text_that_postgresql_cannot_hold_is_refused_in_one_line(store: ClusterStore) -> None:
    """A NUL in a name is an error of the cluster, and the next call works."""
    with pytest.raises(ClusterError) as refused:
        store.place(SessionOrder("a\0b", "name", GIB))
    assert "\n" not in str(refused.value)
    with pytest.raises(SessionNotFound):
        store.route("name")


def test_news_reach_the_node_they_concern(store: ClusterStore) -> None:
    """A placement wakes its node's agent, and no other's."""
    registered(store, "a")
    with store.news("a") as wait, store.news("b") as other:
        store.place(SessionOrder("work", "work", GIB))
        assert wait(30.0)
        assert not other(0.0)


@pytest.fixture
def own() -> Iterator[tuple[Postgres, ClusterStore]]:
    """A server that a test can stop."""
    with Postgres() as server:
        store = ClusterStore(server.dsn, patience_s=1.0)
        store.init()
        yield server, store
        store.close()


def test_a_database_that_was_away_is_used_again(own: tuple[Postgres, ClusterStore]) -> None:
    """Stopped and killed, each call reports that; afterwards the same store works, with the committed
    data."""
    server, store = own
    ticket, held = running(store, registered(store, "a"), "work")
    for stop in (server.stop, server.kill):
        stop()
        with pytest.raises(ClusterUnavailable):
            store.renew(ticket, [held], beat=0, reign=0)
        server.start()
        answer = store.renew(ticket, [held], beat=0, reign=0)
        assert [grant.session for grant in answer.grants] == ["work"]
        assert answer.reign == 1


def test_a_database_that_neither_answers_nor_refuses_is_given_up(
    own: tuple[Postgres, ClusterStore],
) -> None:
    """A frozen server holds a caller for its patience only, and others as well."""
    server, store = own
    registered(store, "a")
    store.nodes()
    server.freeze()
    try:
        outcomes: list[BaseException] = []

        def ask() -> None:
            try:
                store.nodes()
            except ClusterUnavailable as error:
                outcomes.append(error)

        callers = [threading.Thread(target=ask) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
        assert len(outcomes) == 3
    finally:
        server.thaw()
    until = time.monotonic() + 60
    while True:
        try:
            assert len(store.nodes()) == 1
            return
        except ClusterUnavailable:
            assert time.monotonic() < until


def test_a_standby_that_missed_the_last_second_begins_a_reign(own: tuple[Postgres, ClusterStore]) -> None:
    """The holder of a later epoch corrects the row; until the reign is settled nothing is placed again."""
    server, store = own
    tickets = registered(store, "a", "b")
    ticket, held = running(store, tickets, "work")
    store.commit_copy(ticket, DurableCopy("work", held.epoch, 1, "snap", "sha256:1"))
    server.stop()
    standby = Postgres.copy_of(server)
    server.start()
    # What the standby does not receive: the session moves to the other node.
    lose(store, ticket.node)
    [moved] = store.take_over()
    assert moved.node is not None
    now_holder, now_held = tickets[moved.node], Held("work", moved.epoch)
    store.started(now_holder, now_held)
    server.kill()
    standby.promote()
    with standby:
        after = ClusterStore(standby.dsn)
        try:
            assert after.session("work").node == ticket.node
            stale = after.renew(ticket, [held], beat=1, reign=1)
            assert stale.reign == 2
            assert stale.reign_age_s < 30
            assert after.take_over() == []
            answer = after.renew(now_holder, [now_held], beat=1, reign=1)
            assert [(grant.session, grant.epoch) for grant in answer.grants] == [("work", moved.epoch)]
            assert after.renew(ticket, [held], beat=stale.beat, reign=2).grants == ()
        finally:
            after.close()


def test_a_node_that_knows_a_later_heartbeat_shows_that_commits_were_lost(store: ClusterStore) -> None:
    """Also on the same timeline, as after the database's machine was rolled back; once, not for each."""
    tickets = registered(store, "a", "b")
    assert store.renew(tickets["a"], [], beat=7, reign=1).reign == 2
    assert store.renew(tickets["b"], [], beat=9, reign=1).reign == 2


def test_times_of_a_cluster_change_only_without_nodes(store: ClusterStore) -> None:
    """Nodes with other terms would disagree about the end of a lease; impossible terms are refused."""
    assert store.init(LeaseTerms(20, 2, 5)).ttl_s == 20
    registered(store, "a")
    assert store.init().ttl_s == 20
    with pytest.raises(ClusterError):
        store.init(LeaseTerms(40, 2, 5))
    for terms in (LeaseTerms(5, 3, 5), LeaseTerms(30, 3, 0), LeaseTerms(30, 0, 5)):
        with pytest.raises(ClusterError):
            store.init(terms)


def test_a_database_that_can_forget_commits_is_refused(own: tuple[Postgres, ClusterStore]) -> None:
    """`synchronous_commit = off` would lose the last placements in a crash."""
    server, _ = own
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres SET synchronous_commit TO off")
    store = ClusterStore(server.dsn)
    try:
        with pytest.raises(ClusterError, match="synchronous_commit"):
            store.init()
    finally:
        store.close()


def test_an_empty_database_gets_a_hint(postgres: Postgres) -> None:
    """The command that makes the tables is named."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE empty")
    store = ClusterStore(postgres.dsn.replace("/postgres?", "/empty?"))
    try:
        with pytest.raises(ClusterError) as refused:
            store.nodes()
        assert "holdfast cluster init" in refused.value.hint
    finally:
        store.close()
