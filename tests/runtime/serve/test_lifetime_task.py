"""The server's task that carries out lifetimes, with sessions that do not answer."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.base import polling
from holdfast.runtime.lifetimes import session_ends
from holdfast.runtime.serve.call_threads import CallThreads
from holdfast.runtime.serve.lifetime_task import IDLE_AT_ONCE, LifetimeTask
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow


def _row(name: str, found: Lifetime) -> SessionRow:
    details = SessionDetails().plus(lifetime=found.as_dict())
    return SessionRow(name, name, "running", "image", datetime.now(UTC), details=details)


@pytest.mark.asyncio
async def test_sessions_that_do_not_answer_keep_no_other_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Root in any number of sessions can stop their supervisors."""
    rows = [_row(f"silent-{number}", Lifetime(idle=10.0)) for number in range(8)]
    controller = SimpleNamespace(context=SimpleNamespace())

    async def session_rows(_actor: str) -> list[SessionRow]:
        return list(rows)

    callers: Any = SimpleNamespace(
        brief=CallThreads(8), controller=lambda _: controller, session_rows=session_rows
    )
    answered, asked, ended = threading.Event(), list[str](), threading.Event()

    def carry_out(_context: Any, watch: Any, session_id: str, step: str) -> str:
        if step == "end":
            rows.pop()
            ended.set()
            return "removed"
        asked.append(session_id)
        answered.wait(60)
        watch.used[session_id] = 4e9
        return ""

    monkeypatch.setattr(session_ends, "carry_out", carry_out)
    task = LifetimeTask(callers)
    async with task.running():
        assert await asyncio.to_thread(polling.until, lambda: len(asked) >= IDLE_AT_ONCE, 30, 0.01)
        rows.append(_row("over", Lifetime(life=1.0, ends_at=1.0)))
        task.look()
        assert await asyncio.to_thread(ended.wait, 30)
        assert len(asked) == IDLE_AT_ONCE
        answered.set()
        assert await asyncio.to_thread(polling.until, lambda: len(asked) == 8, 30, 0.01)
