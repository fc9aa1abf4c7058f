"""Due work in each session, by a given clock; and what counts as use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.errors import SessionBusy, StoreError
from holdfast.runtime.lifetimes.session_ends import (
    BUSY_SECONDS,
    LONGEST_SECONDS,
    LOOK_SECONDS,
    DueSteps,
    Watch,
)
from holdfast.runtime.lifetimes.time_unused import busy
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow


def row(name: str, state: Any = "running", found: Lifetime | None = None) -> SessionRow:
    details = SessionDetails() if found is None else SessionDetails().plus(lifetime=found.as_dict())
    return SessionRow(name, name, state, "image", datetime.now(UTC), details=details)


def test_a_plan_has_due_work_and_the_time_of_the_next_look() -> None:
    rows = [
        row("plain"),
        row("over", found=Lifetime(life=60, ends_at=99)),
        row("soon", found=Lifetime(life=60, ends_at=103)),
        row("later", found=Lifetime(life=60, ends_at=107.5)),
        row("unknown", found=Lifetime(idle=60)),
        row("used", found=Lifetime(idle=60)),
        row("unused", found=Lifetime(idle=60)),
        row("asleep", "suspended", Lifetime(idle=60, asleep="idle")),
    ]
    plan = DueSteps.of(rows, {"used": 99, "unused": 40}, 100)
    assert plan.steps == (("over", "end"), ("soon", "warn"), ("unknown", "idle"), ("unused", "idle"))
    assert plan.pause == 1.5  # until the warning of the one that ends later
    assert DueSteps.of([], {}, 100) == DueSteps((), LOOK_SECONDS)


def test_retries_come_at_growing_intervals() -> None:
    watch = Watch()
    assert watch.ready("a", 0) == 0
    for expected in (1, 3, 7):
        watch.failed("a", StoreError("full"), 100)
        assert watch.ready("a", 100) == expected
    watch.failed("a", SessionBusy("busy"), 100)
    assert watch.ready("a", 100) == BUSY_SECONDS
    for _ in range(20):
        watch.failed("a", StoreError("full"), 100)
    assert watch.ready("a", 100) == LONGEST_SECONDS
    watch.succeeded("a")
    assert watch.ready("a", 100) == 0
    watch.failed("a", StoreError("full"), 100)
    watch.used["a"] = 5
    watch.keep([])
    assert (watch.ready("a", 100), watch.used) == (0, {})


def _seen(observed: str, **more: Any) -> dict[str, Any]:
    return {"observed": {"state": observed}, **more}


@pytest.mark.parametrize(
    ("shell", "kernel", "other", "runs"),
    [
        ("idle", "idle", "exited", False),
        ("running", "idle", "exited", True),
        ("waiting", "idle", "exited", False),  # a question that nobody answers
        ("idle", "busy", "exited", True),
        ("idle", "idle", "running", True),
        ("idle", "dead", "exited", False),
    ],
)
def test_running_commands_count_as_use_unless_they_wait_for_input(
    shell: str, kernel: str, other: str, runs: bool
) -> None:
    shells, kernels = [_seen(shell)], [_seen("running", state=kernel)]
    assert busy(shells, kernels, [_seen("sleep", state=other)]) is runs


def test_waiting_cells_and_jobs_do_not_count_as_use() -> None:
    assert not busy([], [_seen("waiting", state="busy")], [_seen("waiting", state="running")])


def test_a_supervisor_that_says_anything_else_keeps_its_session_awake() -> None:
    assert busy([{"observed": 3}], [], [])
    assert busy([{}], [], [])
