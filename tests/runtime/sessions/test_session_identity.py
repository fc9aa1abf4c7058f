"""Ids of sessions in a store: permitted takeovers, returns, and the place of one that has left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.base.home import Home
from holdfast.errors import SessionExists, SessionNotFound
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions import session_identity
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store import peek
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow
from holdfast.runtime.store.store import Store
from holdfast.runtime.store.timelines import Branch

TENURE = "0123456789ab"
NEXT = "ba9876543210"
COLUMNS: dict[str, Any] = {
    "name": "work",
    "image": "image",
    "options": {},
    "parent_snapshot_id": None,
    "generation": 2,
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "holdfast.db")


def _left(store: Store) -> SessionRow:
    """Return a session that has moved away."""
    row = store.add_session("work", "image", {}, state="running")
    session_identity.tenures(store, row)
    session_identity.hand_over(store, row.id, "ann@box", row.id)
    return store.update_session(row.id, state="removed")


def test_a_chain_begins_once(store: Store) -> None:
    """However many ask for it."""
    row = store.add_session("work", "image", {})
    first = session_identity.tenures(store, row)
    assert session_identity.tenures(store, row) == first
    assert session_identity.tenures(store, store.session("work")) == first
    assert len(first.chain) == 1


def test_a_session_that_left_is_named_with_its_place(store: Store, tmp_path: Path) -> None:
    """By its name and by its id, through the store and on the short way; a new one of that name wins."""
    row = _left(store)
    finders: tuple[Callable[[str], Any], ...] = (
        store.session,
        lambda ref: peek.session(tmp_path / "holdfast.db", ref),
    )
    for find in finders:
        for ref in ("work", row.id):
            with pytest.raises(SessionNotFound, match="it has moved to ann@box") as moved:
                find(ref)
            assert row.id in moved.value.hint
        with pytest.raises(SessionNotFound, match="no such name or id"):
            find("other")
    fresh = store.add_session("work", "image", {}, state="running")
    for find in finders:
        assert find("work").id == fresh.id


def test_an_unknown_id_is_free_and_a_known_one_is_its_own(store: Store) -> None:
    """A claim on an id that was here must show that it continues what was here."""
    row = _left(store)
    mine = session_identity.tenures(store, row)
    session_identity.check_claim(store, "f" * 12, Tenures())
    session_identity.check_claim(store, row.id, mine.plus(TENURE, "box"))
    for other in (Tenures(), Tenures.begun(0.0, "liar"), Tenures.begun(0.0, "liar").plus(TENURE, "box")):
        with pytest.raises(
            SessionExists, match="has since moved to ann@box: the arriving state does not continue it"
        ):
            session_identity.check_claim(store, row.id, other)
    plain = store.add_session("plain", "image", {}, state="running")
    with pytest.raises(SessionExists, match="there already \\(running\\): two machines have it"):
        session_identity.check_claim(store, plain.id, session_identity.tenures(store, plain))
    store.update_session(plain.id, state="removed")
    other = session_identity.tenures(store, plain).plus(TENURE, "box")
    store.keep_details(plain.id, tenures=session_identity.tenures(store, plain).plus(NEXT, "here").kept())
    session_identity.check_claim(store, plain.id, other)  # it was removed here, and runs only there
    never = store.add_session("never", "image", {}, state="removed")
    with pytest.raises(SessionExists, match="was there before: the arriving"):
        session_identity.check_claim(store, never.id, mine)


def test_a_session_that_comes_back_is_the_same_row_with_another_life(store: Store) -> None:
    """Its earlier entries and branch belong to an earlier life, and its name is checked."""
    row = _left(store)
    store.entries.note(row.id, "moved", time.time(), actor="agent", body={}, position=7)
    store.entries.branch(row.id, "c" * 12, Branch("d" * 12, 3, 1.0))
    chain = session_identity.tenures(store, row).plus(TENURE, "box")
    other = store.add_session("work", "image", {})
    with pytest.raises(SessionExists, match="the name is taken"):
        session_identity.take_over(store, row.id, chain, COLUMNS, SessionDetails())
    store.update_session(other.id, state="removed")

    back = session_identity.take_over(store, row.id, chain, COLUMNS, SessionDetails().plus(labels={"a": "b"}))
    assert (back.id, back.state, back.generation) == (row.id, "creating", 2)
    assert back.details.moved_to == "ann@box"  # until it runs
    (life,) = back.details.lives
    store.entries.branch(row.id, "e" * 12, Branch(str(life["id"]), 9, 2.0))  # its place is free
    session_identity.begin_tenure(store, row.id, NEXT)
    now = store.session("work")
    assert now.details.moved_to == ""
    assert [each.id for each in Tenures.parse(now.details.tenures).chain[-2:]] == [TENURE, NEXT]
    with pytest.raises(SessionExists, match="is there already"):
        session_identity.take_over(store, row.id, chain, COLUMNS, SessionDetails())


def test_a_second_holder_of_an_id_is_found_by_its_snapshots(store: Store, tmp_path: Path) -> None:
    """It is reported in one line and kept in the journal; sessions that are not here are not reported."""
    said: list[str] = []
    context = cast(
        "Context",
        SimpleNamespace(
            store=store, home=Home(tmp_path).create(), progress=said.append, actor="person", reason=None
        ),
    )
    row = store.add_session("work", "image", {}, state="running")
    mine = session_identity.tenures(store, row)
    look = session_identity.look_for_twin
    assert look(context, row.id, mine, 0.0, "a file") == ""
    assert look(context, "f" * 12, mine.plus(TENURE, "box"), 0.0, "a file") == ""
    assert said == []
    assert "box" in look(context, row.id, mine.plus(TENURE, "box"), 0.0, "a file")
    (line,) = said
    assert line.startswith(f"session work ({row.id}) runs on two machines: box ")
    assert "\n" not in line
