"""Processes that these tests start end with them, however they ended."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.guest.harness import Guest

from holdfast.base import polling


def test_nothing_outlives_a_supervisor_that_was_killed(marks_library: Path) -> None:
    """Neither its kernel, nor what has left its shell and its session."""
    guest = Guest(marks_library)
    try:
        assert guest.run_cell("1")[-1].head["status"] == "ok"
        guest.exec("setsid sleep 1000 >/dev/null 2>&1 </dev/null & disown")
        assert len(guest.processes()) >= 4  # itself, shell, kernel, program
        guest.process.kill()
        guest.process.wait()
    finally:
        guest.stop()
    assert polling.until(lambda: not guest.processes(), 60, 0.05)
