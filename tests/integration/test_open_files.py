"""Programs find their open files again in copies, whatever the inode numbers are there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.option_types import NewOptions
from holdfast.runtime.api.session import Session

PROGRAM = Path(__file__).parents[1] / "inside" / "databases.py"
FOLDER = "/srv/databases"
PATIENCE = 60.0
HELD: NewOptions = {"read_only": True, "writable": ["/srv", "/root"]}
BALLAST = 96
"""Megabytes: with that much, memory of a copy comes on demand."""
ROOTS = pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id=""),
        pytest.param(HELD, id="below a read-only root", marks=pytest.mark.thorough),
    ],
)
EXCLUDED = ["fine", "database is locked", "fine", "fine"]


@pytest.mark.thorough
@ROOTS
def test_sqlite_continues_in_every_mode(hf: Holdfast, options: NewOptions) -> None:
    """Idle, reading, writing, in all kinds of journal: each continues to write, and connections of one
    process keep
    each other out, those made in the copy and those from before. So in a copy of a copy, with memory that
    comes on demand, and after a suspension.
    """
    session = hf.new("databases", **options)
    session.exec(f"cat > /root/databases.py <<'END'\n{PROGRAM.read_text()}\nEND")
    session.exec(f"mkdir {FOLDER}; python3 /root/databases.py {FOLDER} {BALLAST} > /root/log 2>&1 &")
    until(session, "ready-0")
    copy = session.snapshot().restore("copy")
    assert said(session, 0) == expected(moved=False)
    assert said(copy, 0) == expected(moved=True)

    until(copy, "ready-1")
    assert said(copy.snapshot().restore("copy-of-the-copy"), 1) == expected(moved=True)

    until(session, "ready-1")
    session.suspend()
    assert said(session.resume(), 1) == expected(moved=True)


@ROOTS
def test_a_log_is_still_followed(hf: Holdfast, options: NewOptions) -> None:
    """`tail -F` prints in the copy what is added, and nothing twice; it still sees that a file is
    replaced.
    """
    session = hf.new("log", **options)
    session.exec(f"mkdir {FOLDER}; cd {FOLDER}; seq 3 > log")
    for how in ("", "---disable-inotify"):
        told = f"told{how}"
        session.exec(f": > {told}; tail -F {how} -s 0.1 log > {told} 2>/dev/null &")
    followed(session, "1 2 3")
    copy = session.snapshot().restore("copy")
    for each in (copy, session):
        each.exec("echo 4 >> log")
        followed(each, "1 2 3 4")
        each.exec("mv log log.1; echo 5 > log")
        followed(each, "1 2 3 4 5")


REMOVED = """
import ctypes, os, time
libc = ctypes.CDLL(None)
first, now = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
file = os.open("one", os.O_RDWR | os.O_CREAT)
libc.fstat(file, first)
os.link("one", "other")
os.unlink("one")
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
libc.fstat(file, now)
same = os.path.sameopenfile(file, os.open("other", os.O_RDONLY))
open("said", "w").write(f"{first.raw[:16] == now.raw[:16]} {same}")
"""


def test_a_file_that_has_lost_one_of_its_names_is_known_again(shared_hf: Holdfast) -> None:
    """The descriptor's name has been removed, but the file has a second one: fstat(2) reports the same as
    before."""
    session = shared_hf.new("renamed")
    session.exec(f"mkdir {FOLDER}; cd {FOLDER}; (python3 -c '{REMOVED}' &)")
    until(session, "ready")
    copy = session.snapshot().restore("renamed-copy")
    for each in (session, copy):
        each.exec(f": > {FOLDER}/go")
        until(each, "said")
        assert each.exec(f"cat {FOLDER}/said").text == "True True"
    for each in (session, copy):
        each.remove()


TIMERS = """
import os, time
HALF = 500_000_000
far, often = (os.timerfd_create(time.CLOCK_REALTIME) for _ in range(2))
target, first = time.time_ns() + 3600 * 10**9, time.time_ns() + HALF
os.timerfd_settime_ns(far, flags=os.TFD_TIMER_ABSTIME, initial=target)
os.timerfd_settime_ns(often, flags=os.TFD_TIMER_ABSTIME, initial=first, interval=HALF)
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
late = min(abs(time.time_ns() + os.timerfd_gettime_ns(far)[0] - target) for _ in range(50))
count = int.from_bytes(os.read(often, 8), "little")
missed = abs(count - (time.time_ns() - first) // HALF)
open("said", "w").write(f"{late < HALF / 2} {missed < 2}")
"""


def test_timers_for_a_time_of_day_expire_then(shared_hf: Holdfast) -> None:
    """In a copy as in the parent, whatever has passed since the capture; expirations are counted on."""
    session = shared_hf.new("timed")
    session.exec(f"mkdir {FOLDER}; cd {FOLDER}; (python3 -c '{TIMERS}' &)")
    until(session, "ready")
    copy = session.snapshot().restore("timed-copy")
    for each in (copy, session):
        each.exec(f": > {FOLDER}/go")
        until(each, "said")
        assert each.exec(f"cat {FOLDER}/said").text == "True True"
        each.remove()


def followed(session: Session, told: str) -> None:
    """Wait until both have printed this many lines, and compare them."""
    deadline = time.monotonic() + PATIENCE
    for name in ("told", "told---disable-inotify"):
        while len(said := session.exec(f"cat {name}").text.split()) < len(told.split()):
            assert time.monotonic() < deadline, said
            time.sleep(0.1)
        assert said == told.split()


def expected(*, moved: bool) -> dict[str, Any]:
    """Return the expected output."""
    held = ("idle", "reading", "about to write", "writing", "wal", "truncate", "persist", "exclusive")
    return {
        **dict.fromkeys(held, "fine"),
        **{f"end of {name}": "fine" for name in ("reading", "about to write", "writing")},
        **{f"check of {name}": "ok" for name in held},
        **{f"shared, {mode}": EXCLUDED for mode in ("delete", "wal")},
        "pair": "database is locked",
        "moved": moved,
        "ballast": True,
    }


def said(session: Session, turn: int) -> dict[str, Any]:
    """Make the program use its databases, and return its report."""
    session.exec(f": > {FOLDER}/go-{turn}")
    until(session, f"said-{turn}")
    told: dict[str, Any] = json.loads(session.exec(f"cat {FOLDER}/said-{turn}").text)
    return told


def until(session: Session, name: str) -> None:
    """Wait for a file of the program."""
    deadline = time.monotonic() + PATIENCE
    while not session.exec(f"[ -e {FOLDER}/{name} ]").ok:
        assert time.monotonic() < deadline, session.exec("cat /root/log").text
        time.sleep(0.1)
