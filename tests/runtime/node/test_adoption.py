"""Sessions that were made on a node become the cluster's, in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.machines.postgres import Postgres

from holdfast.errors import LeaseLost, SessionExists
from holdfast.runtime.cluster.cluster_rows import (
    CommandNote,
    DurableCopy,
    Held,
    NodeOffer,
    NodeTicket,
    SessionOrder,
)
from holdfast.runtime.cluster.cluster_store import ClusterStore


@pytest.fixture(scope="module")
def store() -> Iterator[ClusterStore]:
    with Postgres() as postgres:
        made = ClusterStore(postgres.dsn)
        made.init()
        yield made
        made.close()


def _order(session: str, name: str) -> SessionOrder:
    return SessionOrder(session, name, 1 << 28)


def test_a_session_is_taken_in_once(store: ClusterStore) -> None:
    """With its epoch, however often that is asked for; its name is taken for all nodes then."""
    one = store.register(NodeOffer("one", "boot1", "http://one", 8 << 30))
    two = store.register(NodeOffer("two", "boot2", "http://two", 8 << 30))
    held = store.adopt(one, _order("a" * 12, "work"))
    assert held == Held("a" * 12, 1)
    assert store.adopt(one, _order("a" * 12, "work")) == held
    with pytest.raises(SessionExists):
        store.adopt(two, _order("b" * 12, "work"))
    with pytest.raises(LeaseLost):
        store.adopt(two, _order("a" * 12, "work"))
    answer = store.renew(one, [held], beat=0, reign=0)
    assert [(each.session, each.epoch, each.started) for each in answer.grants] == [("a" * 12, 1, True)]
    assert store.route("work").address == "http://one"
    replaced = store.register(NodeOffer("one", "boot1", "http://one", 8 << 30))
    with pytest.raises(LeaseLost):
        store.adopt(one, _order("c" * 12, "other"))
    assert store.adopt(replaced, _order("c" * 12, "other")).epoch == 1


def test_a_removed_session_that_comes_back_has_a_further_epoch(store: ClusterStore) -> None:
    """Its own snapshot was restored under its id: holders of an earlier epoch stay away."""
    one = store.register(NodeOffer("three", "boot3", "http://three", 8 << 30))
    store.adopt(one, _order("d" * 12, "again"))
    store.remove("d" * 12)
    other = store.adopt(one, _order("e" * 12, "again"))
    with pytest.raises(SessionExists):
        store.adopt(one, _order("d" * 12, "again"))
    store.remove(other.session)
    assert store.adopt(one, _order("d" * 12, "again")) == Held("d" * 12, 2)


def test_a_recovered_session_has_no_notes_of_lost_work(store: ClusterStore) -> None:
    """Its journal assigns the same numbers again, to other commands."""
    one = store.register(NodeOffer("four", "boot4", "http://four", 8 << 30))
    held = store.adopt(one, _order("f" * 12, "noted"))
    store.commit_copy(one, DurableCopy(held.session, held.epoch, 1, "s", "r@sha256:0", journal_seq=5))
    store.note_commands(one, held, [CommandNote(6, "lost", "key")])
    again, told = _placed_again(store, one, held)
    assert told == ["lost"]
    store.started(one, again)
    store.note_commands(one, again, [CommandNote(6, "new", None)])
    assert _placed_again(store, one, again)[1] == ["new"]


def _placed_again(store: ClusterStore, node: NodeTicket, held: Held) -> tuple[Held, list[str]]:
    """Have a session die, and return the report of its last node, which gets it again."""
    store.failed(node, held, "it died")
    answer = store.renew(node, [], beat=0, reign=0)
    (grant,) = [each for each in answer.grants if each.session == held.session]
    assert grant.recovery is not None
    return Held(grant.session, grant.epoch), [each["text"] for each in grant.recovery["commands"]]
