from __future__ import annotations

from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.runtime.journal import journal_query
from holdfast.runtime.store import timelines
from holdfast.runtime.store.entry import CheckedLine
from holdfast.runtime.store.lives import Lives
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow
from holdfast.runtime.store.store import Store
from holdfast.runtime.store.timelines import Branch


@pytest.fixture
def store(home: Home) -> Store:
    return Store.open(home.database)


def _ran(store: Store, session: str, *numbers: int) -> None:
    store.entries.take(
        session, [CheckedLine(n, float(n), "command_started", None, f'{{"command":"c{n}"}}') for n in numbers]
    )


def _taken(store: Store, session: SessionRow, seq: int) -> SnapshotRow:
    row = store.add_snapshot(session.id, "live", details=SnapshotDetails.of(generation=session.generation))
    moment = {"journal_seq": seq, "at": seq + 0.5}
    return store.update_snapshot(row.id, state="ready", details=row.details.plus(moment=moment))


def _read(home: Home, store: Store, session: SessionRow, **how: Any) -> list[tuple[int, str, bool]]:
    controller: Any = type("Controller", (), {"store": store, "home": home})
    found = journal_query.read(controller, session.id, journal_query.Filter(kinds=["command_started"]), **how)
    return [(entry.seq, entry.session, entry.current) for entry in found]


def test_a_rewound_session_continues_from_there(home: Home, store: Store) -> None:
    """Its journal has the entries before the snapshot and those since; the rest is another timeline."""
    work = store.add_session("work", "i", {}, state="running")
    _ran(store, work.id, 1, 2)
    first = _taken(store, work, 2)
    _ran(store, work.id, 3, 4)
    last = _taken(store, work, 4)

    Lives(store.database).begin(work, first, {"generation": 1, "container_id": "new"})
    _ran(store, work.id, 3)

    now = store.session("work")
    assert (now.generation, now.container_id) == (1, "new")
    assert _read(home, store, now) == [(1, "work", True), (2, "work", True), (3, "work", True)]
    everything = _read(home, store, now, all_timelines=True)
    assert [seq for seq, _, current in everything if not current] == [3, 4]
    assert {name for _, name, _ in everything} == {"work"}
    assert timelines.resumes_after(now) == 2
    assert timelines.rewound_at(now) > 0
    assert timelines.journal_of(store.snapshot(last.id)) == now.details["lives"][0]["id"]


def test_forks_of_an_abandoned_life_keep_their_past(home: Home, store: Store) -> None:
    """Those made before and those made after it was abandoned."""
    work = store.add_session("work", "i", {}, state="running")
    _ran(store, work.id, 1, 2)
    first = _taken(store, work, 1)
    early = store.add_session("early", "i", {}, state="running")
    store.entries.branch(early.id, first.id, Branch(work.id, 2, 2.5))
    Lives(store.database).begin(work, first, {"generation": 1})
    _ran(store, work.id, 2)
    _ran(store, early.id, 3)

    assert [seq for seq, _, _ in _read(home, store, early)] == [1, 2, 3]
    now = store.session("work")
    again = _taken(store, now, 2)
    Lives(store.database).begin(now, again, {"generation": 2})
    _ran(store, work.id, 3)

    assert [seq for seq, _, _ in _read(home, store, store.session("work"))] == [1, 2, 3]
    assert len(store.session("work").details["lives"]) == 2


def test_a_snapshot_without_a_moment_starts_a_new_journal(home: Home, store: Store) -> None:
    """Nothing of the abandoned life is taken for the new life's past."""
    work = store.add_session("work", "i", {}, state="running")
    _ran(store, work.id, 1)
    old = store.update_snapshot(store.add_snapshot(work.id, "filesystem").id, state="ready")
    Lives(store.database).begin(work, old, {"generation": 1})
    _ran(store, work.id, 1)

    assert _read(home, store, store.session("work")) == [(1, "work", True)]
