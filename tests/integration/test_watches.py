"""Watches of inotify: a session sees nothing of its capture, and copies keep watching."""

from __future__ import annotations

import json
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

PROGRAM = Path(__file__).parents[1] / "inside" / "watching.py"
ATTACKS = Path(__file__).parent / "attacks"
FOLDER = "/srv/watched"
PATIENCE = 120.0
UNREAD, MANY = 20, 150
MODIFY, CREATE, OVERFLOW, IGNORED = 0x2, 0x100, 0x4000, 0x8000
DELETED = """
import ctypes, os, pathlib, time
file = open("/srv/file", "w")
libc = ctypes.CDLL(None)
queue = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(queue, b"/srv/file", 0x2) > 0
pathlib.Path("/srv/file").unlink()
pathlib.Path("/root/ready").touch()
while not pathlib.Path("/root/go").exists():
    time.sleep(0.02)
file.write("x")
file.flush()
pathlib.Path("/root/said").write_text(os.read(queue, 4096).hex())
"""


@pytest.fixture
def session(hf: Holdfast) -> Session:
    made = hf.new("watching")
    made.cell("0")  # it has been started by then, of files that are watched
    made.exec(f"cat > /root/watching.py <<'END'\n{PROGRAM.read_text()}\nEND")
    made.exec(f"cd /root; python3 watching.py {FOLDER} > log 2>&1 & cd")
    until(made, "ready-0")
    return made


def test_the_parent_sees_nothing_and_copies_continue(session: Session) -> None:
    """The parent gets no event of the capture, whatever is watched; unread events stay. In copies every watch
    is on
    the same file, also if that was renamed, has several names, or is a link; unread events become one that
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
    """Check that changes are read by the watch that read them before."""
    assert told["unread after"] == [["unread", CREATE, f"again-{turn}"]]
    assert told["links after"] == ["link", "target"]
    assert Counter(told["many after"]) == Counter(str(number) for number in range(MANY))
    assert sorted(told["moved after"]) == sorted(
        ["renamed", "image", "image, below", "odd name", "deep", "linked", "changed"]
    )


def said(session: Session, turn: int) -> dict[str, Any]:
    """Make the program print what it has read."""
    session.exec(f": > {FOLDER}/control/go-{turn}")
    until(session, f"said-{turn}")
    told: dict[str, Any] = json.loads(session.exec(f"cat {FOLDER}/control/said-{turn}").text)
    return told


def until(session: Session, name: str) -> None:
    """Wait for a file of the program."""
    seen(session, f"{FOLDER}/control/{name}")


def seen(session: Session, path: str) -> None:
    """Wait for a file without opening it."""
    deadline = time.monotonic() + PATIENCE
    while not session.exec(f"[ -e {path} ]").ok:
        assert time.monotonic() < deadline, session.exec("cat /root/log").text
        time.sleep(0.1)


def test_watches_of_constantly_renamed_files_stay_on_them(hf: Holdfast) -> None:
    """Links that lead out take its place in between. A watch is on the very inode in the copy."""
    session = hf.new("swapping")
    session.exec(f"cat > /root/swapping.py <<'END'\n{(ATTACKS / 'swapping.py').read_text()}\nEND")
    session.exec("python3 /root/swapping.py > /root/log 2>&1 &")
    seen(session, "/srv/swapping/ready")
    copy = session.snapshot().restore("copy")
    copy.exec(": > /srv/swapping/go")
    seen(copy, "/srv/swapping/said")
    assert copy.exec("grep true /srv/swapping/said").ok


def test_a_copy_learns_that_the_watch_of_a_deleted_file_has_ended(hf: Holdfast) -> None:
    """Also if it had ended before. Here it continues."""
    session = hf.new("deleted")
    session.exec(f"cat > /root/deleted.py <<'END'\n{DELETED}\nEND")
    session.exec("python3 /root/deleted.py > /root/log 2>&1 &")
    seen(session, "/root/ready")
    assert "watch_deleted" in [one.kind for one in session.check().resets]
    copy = session.snapshot().restore("copy")
    assert masks(copy) == [IGNORED]
    assert masks(session) == [MODIFY]


def masks(session: Session) -> list[int]:
    """Return the masks of the events that are read when the deleted file is written."""
    session.exec(": > /root/go")
    seen(session, "/root/said")
    data = bytes.fromhex(session.exec("cat /root/said").text.split("[")[0].strip())
    return [mask for _, mask, _, _ in struct.iter_unpack("iIII", data)]
