"""Which sandboxes are due, and when to look again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.e2b.sandbox_lives import LOOK_SECONDS, due, pause_before, stopped_clocks
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow


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
