"""A receiver's later report of an attempt to move a session here."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.base.home import Home
from holdfast.runtime.moving.receiver import Receiver
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions import session_identity
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.store import Store

FIRST, SECOND = "0123456789ab", "ba9876543210"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "holdfast.db")


@pytest.fixture
def receiver(store: Store, tmp_path: Path) -> Receiver:
    context = SimpleNamespace(store=store, home=Home(tmp_path / "home").create(), actor="agent", reason=None)
    return Receiver(cast("Context", context), io.BytesIO())


def asked(receiver: Receiver, attempt: str) -> dict[str, Any]:
    """Return the answer to the question what became of an attempt."""
    found = receiver.answer({"do": "find", "attempt": attempt, "name": "work"})
    assert found is not None
    return found


def test_an_earlier_attempt_is_remembered_after_a_later_one(store: Store, receiver: Receiver) -> None:
    """Its source would let its own session continue otherwise, and there would be two."""
    details = SessionDetails().plus(arrival={"attempt": FIRST, "state": "arrived"})
    row = store.add_session("work", "image", {}, state="running", details=details)
    session_identity.begin_tenure(store, row.id, FIRST)
    store.keep_details(row.id, arrival={"attempt": SECOND, "state": "arrived"})
    session_identity.begin_tenure(store, row.id, SECOND)
    for attempt in (FIRST, SECOND):
        assert (asked(receiver, attempt)["state"], asked(receiver, attempt)["session"]) == ("running", row.id)
    store.update_session(row.id, state="removed")
    for attempt in (FIRST, SECOND):
        assert asked(receiver, attempt)["state"] == "removed"


def test_an_attempt_that_never_began_never_will(store: Store, receiver: Receiver) -> None:
    assert asked(receiver, FIRST)["state"] == "absent"
    details = SessionDetails().plus(arrival={"attempt": SECOND})
    store.add_session("other", "image", {}, state="removed", details=details)  # its start was undone
    assert asked(receiver, SECOND)["state"] == "absent"
