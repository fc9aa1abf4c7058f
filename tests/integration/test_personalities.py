"""Copies keep a personality (setarch, linux32) for the processes that had one, and for no others."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).parents[1] / "inside" / "of_another_kind.py"
PATIENCE = 60.0
# In this order, each below the one before.
VALUES = {"plain": 0, "old": 0x20000, "both": 0x20008, "thirty-two": 0x8, "plain-again": 0}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of machines are those of x86-64")
def test_personalities_are_kept(hf: Holdfast) -> None:
    """Of processes and their threads, and of their children; in a copy of a copy as well."""
    session = hf.new("kinds")
    session.exec(f"cat > /root/kinds.py <<'END'\n{PROGRAM.read_text()}\nEND")
    session.exec(f"mkdir /srv/k; python3 /root/kinds.py /srv/k {' '.join(VALUES)} > /root/log 2>&1 &")
    until(session, [f"ready-{name}" for name in VALUES])
    copy = session.snapshot().restore("copy")
    again = copy.snapshot().restore("copy-of-the-copy")
    expected = {
        name: dict.fromkeys(("main", "thread", "child"), (value, not value & 0x8, bool(value & 0x20000)))
        for name, value in VALUES.items()
    }
    for each in (again, copy, session):
        assert said(each) == expected


def said(session: Session) -> dict[str, Any]:
    """Return each process's report."""
    session.exec(": > /srv/k/go")
    until(session, [f"said-{name}" for name in VALUES])
    told = {name: json.loads(session.exec(f"cat /srv/k/said-{name}").text) for name in VALUES}
    return {name: {who: tuple(one) for who, one in whose.items()} for name, whose in told.items()}


def until(session: Session, names: list[str]) -> None:
    """Wait for files of the program."""
    deadline = time.monotonic() + PATIENCE
    while not session.exec(f"cd /srv/k && ls {' '.join(names)} > /dev/null").ok:
        assert time.monotonic() < deadline, session.exec("cat /root/log").text
        time.sleep(0.1)
