"""Connections within a session continue in copies from any state, to the last byte."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).parents[1] / "inside" / "half_closed.py"
COUNT = 144
"""Ends: three families, six states, either end first, within one process and between two."""
FOLDER = "/dev/shm/ends"
COPIES = int(os.environ.get("HOLDFAST_TEST_COPIES", "2"))
PATIENCE = 120.0


def test_every_state_of_a_connection_continues_in_copies(hf: Holdfast) -> None:
    session = hf.new("ends")
    session.exec(f"mkdir {FOLDER}; cat > ends.py <<'END'\n{PROGRAM.read_text()}\nEND")
    session.exec(f"setsid python3 ends.py {FOLDER} > {FOLDER}/log 2>&1 < /dev/null &")
    until(session, f"ls {FOLDER}/ready-0 {FOLDER}/ready-1 {FOLDER}/ready-2")
    taken = session.snapshot()

    for number in range(COPIES):
        copy = taken.restore(f"copy-{number}")
        assert unknown_to_tracking(hf, copy) == 0
        assert wrong(copy) == {}
        copy.remove()
    assert wrong(session) == {}


def unknown_to_tracking(hf: Holdfast, session: Session) -> int:
    """Return packets of the restore that connection tracking did not know and could have dropped."""
    state = hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    columns, *processors = Path(f"/proc/{state.pid}/net/stat/nf_conntrack").read_text().splitlines()
    rows = [dict(zip(columns.split(), line.split(), strict=True)) for line in processors]
    return sum(int(row[name], 16) for row in rows for name in ("invalid", "insert_failed", "drop"))


def wrong(session: Session) -> dict[str, str]:
    """Let all ends send the rest; return the missing or altered data."""
    session.exec(f"touch {FOLDER}/go")
    until(session, f"ls {FOLDER}/said-0 {FOLDER}/said-1 {FOLDER}/said-2")
    said = [json.loads(session.exec(f"cat {FOLDER}/said-{process}").text) for process in range(3)]
    assert sum(each["count"] for each in said) == COUNT
    return {name: why for each in said for name, why in each["wrong"].items()}


def until(session: Session, command: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not session.exec(command).ok:
        assert time.monotonic() < deadline, session.exec(f"cat {FOLDER}/log").text
        time.sleep(0.1)
