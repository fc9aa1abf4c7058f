"""What is watched by inotify: a session sees nothing of its capture, and copies go on watching."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.controller import Holdfast
from holdfast.runtime.session import Session

pytestmark = pytest.mark.engine

PROGRAM = Path(__file__).parents[1] / "inside" / "watching.py"
FOLDER = "/srv/watched"
PATIENCE = 120.0
UNREAD, MANY = 20, 150
CREATE, OVERFLOW = 0x100, 0x4000


@pytest.fixture
def session(hf: Holdfast) -> Session:
    made = hf.new("watching")
    made.cell("0")  # it has been started by then, of files that are watched
    made.exec(f"cat > /root/watching.py <<'END'\n{PROGRAM.read_text()}\nEND")
    made.exec(f"cd /root; python3 watching.py {FOLDER} > log 2>&1 & cd")
    until(made, "ready-0")
    return made


def test_the_parent_sees_nothing_and_copies_go_on(session: Session) -> None:
    """Not one event of the capture, of whatever is watched; unread events stay. In copies every watch is on
    what it was on, also if that was renamed, has several names, or is a link; unread events become one that
    says that they were lost.
    """
    copy = session.snapshot().restore("copy")
    before = said(session, 0)
    assert {name: before[name] for name in ("everything", "many", "links", "moved")} == {
        "everything": [],
        "many": [],
        "links": [],
        "moved": [],
    }
    assert before["unread"] == [["unread", CREATE]] * UNREAD
    after(before, 0)

    until(copy, "ready-0")
    first = said(copy, 0)
    assert first["unread"] == [["-1", OVERFLOW]]
    assert [first[name] for name in ("everything", "many", "links", "moved")] == [[], [], [], []]
    after(first, 0)

    until(copy, "ready-1")
    second = said(copy.snapshot().restore("copy-of-the-copy"), 1)
    assert second["unread"] == [["-1", OVERFLOW]]
    after(second, 1)


def after(told: dict[str, Any], turn: int) -> None:
    """What was changed is read, by the watch it was read by before."""
    assert told["unread after"] == [["unread", CREATE, f"again-{turn}"]]
    assert told["links after"] == ["link", "target"]
    assert Counter(told["many after"]) == Counter(str(number) for number in range(MANY))
    assert sorted(told["moved after"]) == sorted(
        ["renamed", "image", "image, below", "odd name", "deep", "linked", "changed"]
    )


def said(session: Session, turn: int) -> dict[str, Any]:
    """Let the program say what it has read."""
    session.exec(f": > {FOLDER}/control/go-{turn}")
    until(session, f"said-{turn}")
    told: dict[str, Any] = json.loads(session.exec(f"cat {FOLDER}/control/said-{turn}").text)
    return told


def until(session: Session, name: str) -> None:
    """Wait for a file of the program, by nothing that opens one."""
    deadline = time.monotonic() + PATIENCE
    while not session.exec(f"[ -e {FOLDER}/control/{name} ]").ok:
        assert time.monotonic() < deadline, session.exec("cat /root/log").text
        time.sleep(0.1)
