"""Sessions that wait, in the store: each is handed over once, together with its session."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress

import pytest

from holdfast.base.home import Home
from holdfast.errors import SessionExists
from holdfast.runtime.store import mending
from holdfast.runtime.store.store import Store
from holdfast.runtime.store.waiting import WaitingRow


@pytest.fixture
def store(home: Home) -> Store:
    return Store.open(home.database)


def row(number: int) -> WaitingRow:
    return WaitingRow(
        f"{number:012x}", "digest", "image", f"{number:064x}", number, "boot:1", options={"a": 1}
    )


def test_a_waiting_session_is_not_listed(store: Store) -> None:
    """Nothing that lists sessions sees it, and no name or prefix of an id finds it."""
    store.waiting.add(row(1))
    assert [each.id for each in store.waiting.all()] == [row(1).id]
    assert store.sessions(removed=True) == []
    assert store.fresh_sessions(9) == []
    assert store.find_session(row(1).id, removed=True) is None


def test_added_rows_are_read_again(store: Store, home: Home) -> None:
    """All fields last, for other processes as well; the oldest comes first."""
    rows = [row(3), row(1), row(2)]
    for each in rows:
        store.waiting.add(each)
    assert Store.open(home.database).waiting.all() == rows


def test_each_is_claimed_once(home: Home, store: Store) -> None:
    """Of many callers at the same instant, one gets it."""
    for number in range(5):
        store.waiting.add(row(number))
    got: list[str] = []
    barrier = threading.Barrier(8)

    def take() -> None:
        own = Store.open(home.database)
        barrier.wait()
        got.extend(each.id for each in store.waiting.all() if own.waiting.claim(each.id))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [row(number).id for number in range(5)]
    assert store.waiting.all() == []


def test_a_claim_is_undone_with_its_transaction(store: Store) -> None:
    """A name that is taken leaves the session waiting: claim and row are one transaction."""
    store.waiting.add(row(1))
    store.add_session("work", "image", {})
    with suppress(SessionExists), store.together():
        assert store.waiting.claim(row(1).id)
        store.add_session("work", "image", {}, session_id=row(1).id)
    assert [each.id for each in store.waiting.all()] == [row(1).id]


def test_a_damaged_row_is_forgotten(home: Home, store: Store) -> None:
    """It is set aside, and its container is garbage; the others are handed over."""
    for number in (1, 2):
        store.waiting.add(row(number))
    with closing(sqlite3.connect(home.database)) as db, db:
        db.execute("UPDATE waiting SET options = 'not json' WHERE id = ?", (row(1).id,))
    assert [each.id for each in store.waiting.all()] == [row(2).id]
    assert (home.root / mending.ASIDE).exists()
