"""The cost of starting a session, from nothing or from a snapshot; counts, never times."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast, Session
from holdfast.runtime.store import database


def _transactions(do: Callable[[], object]) -> int:
    """Count the transactions of the store, each of which waits for the disk."""
    counted = 0
    connected = database.connected

    def count(statement: str) -> None:
        nonlocal counted
        counted += statement == "COMMIT"

    def watched(path: Path) -> sqlite3.Connection:
        db = connected(path)
        db.set_trace_callback(count)
        return db

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "connected", watched)
        do()
    return counted


def test_a_start_waits_for_the_disk_a_few_times(hf: Holdfast) -> None:
    """Intent and plan, result, end, entries of journals; a restore also notes the fork in its parent's."""
    assert _transactions(lambda: hf.new("work", policy={"keep": 1})) <= 4
    taken = hf.session("work").snapshot()

    assert _transactions(lambda: taken.restore("copy")) <= 6
    assert _transactions(lambda: taken.fork(2, name="twin")) <= 6
    assert [row.kind for row in hf.store.entries.of([hf.session("copy").id])][-2:] == ["verified", "restored"]
    assert hf.session("work").row.details.policy == {"keep": 1}


def test_a_capture_waits_for_the_disk_a_few_times(hf: Holdfast) -> None:
    """Intent and row, copy of the journal, result with its entry, end; no copy if nothing has happened."""
    session = hf.new("work")
    session.exec("true")

    assert _transactions(session.snapshot) <= 4
    again = _transactions(session.snapshot)
    # On a busy machine a session may not be seen still in time: then everything is captured again.
    assert again <= (3 if hf.store.snapshots(session.id)[-1].details.get("same_as") else 4)
    taken = [row.body["snapshot"] for row in hf.store.entries.of([session.id], ["snapshot"])]
    assert taken == [row.id for row in hf.store.snapshots(session.id)]


_LOADS = """/usr/bin/python3 -I -c '
import sys
sys.path.insert(0, "/opt/holdfast/guest")
exec(open("/opt/holdfast/guest/__main__.py").read(), {"__name__": "counted"})
print(*sys.modules)
'"""
_HEAVY = {
    "ssl",
    "_ssl",
    "_hashlib",
    "argparse",
    "dataclasses",
    "ipaddress",
    "platform",
    "zmq",
    "jupyter_client",
}


def test_a_supervisor_loads_little_before_it_answers(shared: Session) -> None:
    """Every new session waits for that; the kernel's needs are loaded concurrently."""
    names = shared.exec(_LOADS).text.split()

    assert "holdfast.runtime.guest.supervisor" in names
    assert _HEAVY & set(names) == set()
    assert len(names) <= 335
