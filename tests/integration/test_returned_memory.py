"""Memory that a copy gives back while the rest of it is still loading."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast.runtime.api.controller import Holdfast

PROGRAM = Path(__file__).parents[1] / "inside" / "returning.py"
PROGRAMS = 3
LEAST = 0.5
"""Seconds between capture and copy, by which the programs see that they are in a copy."""


@pytest.mark.thorough
def test_a_copy_can_give_memory_back_at_once(hf: Holdfast) -> None:
    """It loses none of its content, and none of its processes ends: C libraries do so whenever a thread
    ends.
    """
    session = hf.new("returning")
    session.exec(f"cat > /root/returning.py <<'END'\n{PROGRAM.read_text()}\nEND")
    numbers = range(PROGRAMS)
    for number in numbers:
        session.exec(f"setsid python3 /root/returning.py /root {number} > /root/log 2>&1 < /dev/null &")
    there = "until ls {} 2> /dev/null; do sleep 0.1; done"
    assert session.exec(there.format(" ".join(f"/root/ready-{number}" for number in numbers)), timeout=60).ok
    snapshot = session.snapshot()
    time.sleep(LEAST)
    copy = snapshot.restore("copy")
    files = " ".join(f"/root/wrong-{number}" for number in numbers)
    assert copy.exec(there.format(files), timeout=60).ok
    assert copy.exec(f"cat {files}").text == "0" * PROGRAMS
