"""What is kept of a sandbox, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.e2b import sandbox_lives
from holdfast.runtime.e2b.sandbox_lives import (
    DETAIL,
    LOOK_SECONDS,
    MAKING_SECONDS,
    WOKEN_SECONDS,
    SandboxFacts,
    due,
    pause_before,
    stopped_clocks,
)
from holdfast.runtime.e2b.sandbox_making import copied
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow
from holdfast.runtime.store.store import Store


def test_an_end_is_moved_and_by_who_connects_only_to_later() -> None:
    facts = SandboxFacts().given(60, 1000)
    assert (facts.ends_at, facts.due(1059), facts.due(1060)) == (1060, False, True)
    assert facts.given(10, 1000).ends_at == 1010
    assert facts.given(10, 1000, longer=True).ends_at == 1060
    assert facts.given(90, 1000, longer=True).ends_at == 1090


def test_the_time_of_a_paused_sandbox_stands_still_and_a_request_gives_it_some() -> None:
    paused = SandboxFacts().given(7200, 1000).paused()
    assert not paused.due(1e12)
    assert paused.woken(5000).ends_at == 5000 + 7200
    assert SandboxFacts().given(1, 1000).paused().woken(5000).ends_at == 5000 + WOKEN_SECONDS


def test_a_copy_has_an_end_of_its_own_and_no_key() -> None:
    parent = SandboxFacts(metadata={"a": "b"}, env={"C": "d"}, key="k", asked="a", ended=True).given(
        600, 1000
    )
    copy = copied(parent, 15, 2000)
    assert (copy.seconds, copy.ends_at, copy.key, copy.asked, copy.ended) == (15, None, None, None, False)
    assert (copy.metadata, copy.env) == ({"a": "b"}, {"C": "d"})


def test_a_copy_without_a_timeout_lives_as_long_as_its_parent() -> None:
    """What is left of the parent's life; its whole timeout where the parent has no end."""
    parent = SandboxFacts().given(600, 1000)
    assert copied(parent, None, 1150).seconds == 450
    assert copied(parent, None, 9999).seconds == 0
    assert copied(parent.paused(), None, 1150).seconds == 600


def test_a_life_begins_when_the_sandbox_is_handed_over() -> None:
    """However long it is made, it is not ended meanwhile; what its server leaves unfinished is, later."""
    made = SandboxFacts(seconds=15).being_made(1000)
    assert not made.due(1000 + 15 + MAKING_SECONDS - 1)
    assert made.due(1000 + 15 + MAKING_SECONDS)
    assert made.given(made.seconds, 1400).ends_at == 1415


def test_facts_are_changed_in_the_store_and_other_sessions_never_get_any(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "db")
    for session_id in ("a" * 12, "b" * 12):
        store.add_session(f"s-{session_id[0]}", "image", {}, session_id=session_id)
    store.keep_details("a" * 12, sandbox=SandboxFacts().model_dump())
    changed = sandbox_lives.change_facts(store, "a" * 12, lambda facts: facts.given(5, 100))
    assert changed is not None
    assert SandboxFacts.of(store.session("a" * 12)) == changed
    assert sandbox_lives.change_facts(store, "b" * 12, lambda facts: facts.given(5, 100)) is None
    assert DETAIL not in store.session("b" * 12).details
    assert sandbox_lives.change_facts(store, "c" * 12, lambda facts: facts.given(5, 100)) is None


def test_details_of_another_form_are_no_facts(tmp_path: Path) -> None:
    for detail in (None, 3, "x", {"ends_at": "soon"}, {"metadata": [1]}, {"at_end": "explode"}):
        assert SandboxFacts.kept(detail) is None


def row(state: Any, **facts: Any) -> SessionRow:
    details = SessionDetails().plus(sandbox=SandboxFacts(**facts).model_dump()) if facts else SessionDetails()
    return SessionRow("a" * 12, "name", state, "image", datetime.now(UTC), details=details)


@pytest.mark.parametrize(
    ("found", "over"),
    [
        (row("running", ends_at=99.0), True),
        (row("running", ends_at=101.0), False),
        (row("running", ends_at=None), False),
        (row("running"), False),  # no client made it
        (row("dead", ends_at=99.0), True),
        (row("dead", ends_at=99.0, at_end="pause"), False),  # what can be saved of it is for its owner
        (row("running", ends_at=99.0, at_end="pause"), True),
        (row("suspended", ends_at=99.0), False),
        (row("suspended", ended=True), True),
        (row("creating", ends_at=99.0), False),
        (row("removed", ended=True), False),
    ],
)
def test_what_is_due(found: SessionRow, over: bool) -> None:
    assert due([found], 100.0) == (["a" * 12] if over else [])


def test_a_session_that_somebody_suspends_has_no_end_any_more() -> None:
    assert stopped_clocks([row("suspended", ends_at=5.0)])
    assert not stopped_clocks([row("suspended", ends_at=None), row("running", ends_at=5.0), row("suspended")])
    assert not stopped_clocks([row("suspended", ends_at=5.0, ended=True)])


def test_when_to_look_again() -> None:
    assert pause_before([], 100.0) == LOOK_SECONDS
    assert pause_before([row("running", ends_at=103.0), row("running", ends_at=99.0)], 100.0) == 3.0
    assert pause_before([row("suspended", ends_at=103.0)], 100.0) == LOOK_SECONDS
