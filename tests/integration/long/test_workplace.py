"""A workplace of a thousand watches, two hundred connections, fifty terminals is captured a hundred times."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import CaptureFailed
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

PROGRAM = Path(__file__).parents[2] / "inside" / "workplace.py"
FOLDER = "/srv/workplace"
CAPTURES = int(os.environ.get("HOLDFAST_TEST_CAPTURES", "100"))
COPY_EACH = 20
WATCHES, CONNECTIONS, TERMINALS = 1000, 200, 50
PARTS = ("changes", "watches", "clients", "servers", "terminals")
PATIENCE = 240.0


@pytest.mark.timeout(120 + CAPTURES * 60)
def test_a_busy_workplace_notices_nothing(hf: Holdfast, tell: Callable[[str], None]) -> None:
    """No event of a capture, no lost byte, no word out of order. So in every twentieth copy, which learns at
    most that unread events were lost.
    """
    session = hf.new("workplace")
    session.exec(f"cat > /root/workplace.py <<'END'\n{PROGRAM.read_text()}\nEND")
    session.exec(
        f"mkdir {FOLDER}; setsid python3 /root/workplace.py {FOLDER} {WATCHES} {CONNECTIONS} {TERMINALS} "
        "> /root/log 2>&1 < /dev/null &"
    )
    until(session, [f"ready-{part}" for part in PARTS])
    assert not session.check().blocks
    frozen: list[float] = []
    asked = refused = number = overflows = 0
    while number < CAPTURES:
        try:
            snapshot = session.snapshot()
        except CaptureFailed:  # the machine has too much else to do: nothing was taken
            refused += 1
            assert refused <= CAPTURES
            continue
        number += 1
        frozen.append(snapshot.row.details["frozen_seconds"])
        if number % COPY_EACH == 0 or number == CAPTURES:
            copy = snapshot.restore("copy")
            told = {each.name: said(each, asked) for each in (session, copy)}
            copy.remove()
            assert {name: found for name, parts in told.items() if (found := wrong(parts))} == {}
            assert told[session.name]["watches"]["overflows"] == 0
            overflows += told["copy"]["watches"]["overflows"]
            asked += 1
            tell(f"{number} of {CAPTURES}")
        snapshot.remove()
    tell(
        f"{CAPTURES} captures, {asked} copies, {refused} refused; "
        f"frozen {statistics.median(frozen) * 1000:.0f} ms (median), {max(frozen) * 1000:.0f} ms at most; "
        f"copies were told of lost events {overflows} times"
    )


def wrong(told: dict[str, Any]) -> dict[str, list[str]]:
    """Return the errors, by part."""
    return {part: each["wrong"] for part, each in told.items() if each["wrong"]}


def said(session: Session, number: int) -> dict[str, Any]:
    """Return each part's report after it has done more."""
    session.exec(f": > {FOLDER}/ask-{number}")
    until(session, [f"said-{part}-{number}" for part in PARTS])
    return {part: json.loads(session.exec(f"cat {FOLDER}/said-{part}-{number}").text) for part in PARTS}


def until(session: Session, names: list[str]) -> None:
    """Wait for files of the program."""
    deadline = time.monotonic() + PATIENCE
    while not session.exec(f"cd {FOLDER} && ls {' '.join(names)} > /dev/null; s=$?; cd; (exit $s)").ok:
        assert time.monotonic() < deadline, session.exec(f"cat /root/log; ls {FOLDER}").text
        time.sleep(0.2)
