"""Confinement that a program chose holds in copies, or is refused: none believes it without having it."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path
from typing import Any

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

PROGRAM = Path(__file__).parents[1] / "inside" / "confined.py"
PATIENCE = 60.0


def test_no_process_is_less_confined_in_a_copy(hf: Holdfast) -> None:
    """Filters hold; Landlock, sealed memory and PR_SET_MDWE seem absent, here and in copies alike."""
    session = hf.new("confined")
    session.exec(f"cat > /root/confined.py <<'END'\n{PROGRAM.read_text()}\nEND")
    session.exec("mkdir -p /srv/c; python3 /root/confined.py /srv/c > /root/log 2>&1 &")
    until(session, "-s /srv/c/ready")
    copy = session.snapshot().restore("copy")
    told = {each.name: said(each) for each in (session, copy)}
    lost = [
        (where, way)
        for where, ways in told.items()
        for way, (why, holds) in ways.items()
        if why == 0 and not holds
    ]
    assert lost == []
    for ways in told.values():
        assert ways["seccomp"] == [0, True]
        assert [ways[way][0] for way in ("landlock", "mseal", "mdwe")] == [
            errno.EOPNOTSUPP,
            errno.ENOSYS,
            errno.EINVAL,
        ]


def said(session: Session) -> dict[str, Any]:
    """Return the program's report on each way."""
    session.exec(": > /srv/c/go")
    until(session, "-s /srv/c/said")
    told: dict[str, Any] = json.loads(session.exec("cat /srv/c/said").text)
    return told


def until(session: Session, test: str) -> None:
    """Wait for a file."""
    deadline = time.monotonic() + PATIENCE
    while not session.exec(f"[ {test} ]").ok:
        assert time.monotonic() < deadline, session.exec("cat /root/log").text
        time.sleep(0.1)
