"""Large heaps are copied while the session runs again: from twins of their processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot

PROGRAM = Path(__file__).parents[1] / "inside" / "heaps.py"
PATIENCE = 120.0
MEGABYTES = 48
"""Of each of a program's two heaps."""
BOTH = 2 * MEGABYTES << 20

# Until /srv/stop exists: writes how many descriptors each twin has that appears. With "end" it ends the twin,
# and CRIU.
LOOKS = """
import os, signal, sys
known = set(os.listdir('/proc'))
open('/srv/looks', 'w')
while not os.path.exists('/srv/stop'):
    for pid in set(os.listdir('/proc')) - known:
        try:
            words = open(f'/proc/{pid}/cmdline').read() if pid.isdecimal() else ''
            if ('heaps.py' in words or 'criu' in words) and 'end' in sys.argv:
                os.kill(int(pid), signal.SIGKILL)
            if 'heaps.py' in words:
                open('/srv/seen', 'a').write(f'{len(os.listdir(f"/proc/{pid}/fd"))} ')
        except OSError:
            pass
"""


def begun(session: Session, name: str, *options: str, megabytes: int = MEGABYTES) -> None:
    """Start the program; it writes to /srv/NAME."""
    words = " ".join((str(megabytes), *options))
    session.exec(f"cat > /srv/heaps.py <<'END'\n{PROGRAM.read_text()}\nEND")
    session.exec(
        f": > /srv/{name}; python3 /srv/heaps.py {words} >> /srv/{name} 2>&1 & echo $! > /srv/{name}.pid",
        timeout=60,
    )
    until(session, name, "ready")


def until(session: Session, name: str, wanted: str) -> str:
    """Wait for a word in the program's output; return all of it."""
    deadline = time.monotonic() + PATIENCE
    while wanted not in (said := session.files.read(f"/srv/{name}").decode()):
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    return said


def heaps(session: Session, name: str) -> str:
    """Ask the program whether its heaps are equal; return its answer."""
    session.exec(f": > /srv/{name}; kill -USR1 $(cat /srv/{name}.pid)")
    return until(session, name, "\n").strip()


def copied_later(snapshot: Snapshot) -> int:
    return int(snapshot.row.details.get("copied_later") or 0)


@pytest.mark.thorough
def test_heaps_are_of_one_instant_and_no_process_sees_a_twin(hf: Holdfast) -> None:
    """In the session, in a copy, and in a copy of that; also where system calls are filtered."""
    session = hf.new("heaps")
    begun(session, "open")
    begun(session, "guarded", "guarded")
    for number in range(3):
        snapshot = session.snapshot()
        assert copied_later(snapshot) >= 2 * BOTH
        copy = snapshot.restore(f"copy-{number}")
        for name in ("open", "guarded"):
            assert heaps(copy, name) == "equal 0 0"
            assert heaps(session, name) == "equal 0 0"
        if number == 0:
            again = copy.snapshot()
            assert copied_later(again) >= 2 * BOTH
            assert heaps(again.restore("again"), "open") == "equal 0 0"
        copy.remove()
    assert session.exec("pgrep -fc '^python3 /srv/heaps.py'").text.strip() == "2"


def looking(session: Session, *options: str) -> None:
    session.exec(f"cat > /srv/looks.py <<'END'\n{LOOKS}\nEND")
    session.exec(
        f"python3 /srv/looks.py {' '.join(options)} & until [ -e /srv/looks ]; do :; done", timeout=30
    )


@pytest.mark.thorough
def test_ending_the_twins_does_not_prevent_a_snapshot(hf: Holdfast) -> None:
    """Then the heaps are written while the session is frozen. The attempt before is no event of the session,
    nor is the end of a twin.
    """
    session = hf.new("hostile")
    begun(session, "open")
    looking(session, "end")
    snapshot = session.snapshot()
    assert session.exec("wc -w < /srv/seen; : > /srv/stop").text.strip() != "0"
    assert copied_later(snapshot) == 0
    assert heaps(session, "open") == "equal 0 0"
    events = [*session.events()]
    assert [each.data["event"] for each in events if each.kind == "woken"][-1] == "resumed"
    assert [each.data for each in events if each.kind == "woken" and each.data["event"] == "aborted"] == []
    ends = [each.data["command"] for each in events if each.kind == "process_exited"]
    assert [command for command in ends if "heaps.py" in command] == []
    copy = snapshot.restore("copy")
    copy.exec(": > /srv/stop")
    assert heaps(copy, "open") == "equal 0 0"


def test_a_twin_holds_nothing_open(hf: Holdfast) -> None:
    """What a program closes while its heaps are being copied is closed."""
    session = hf.new("closed")
    begun(session, "open")
    looking(session)
    seen: list[str] = []
    deadline = time.monotonic() + PATIENCE
    while not seen:
        assert time.monotonic() < deadline
        assert copied_later(session.snapshot()) >= BOTH
        seen = session.exec("cat /srv/seen").text.split()
    assert set(seen) == {"0"}


@pytest.mark.thorough
def test_without_memory_for_copies_they_are_written_in_the_freeze(hf: Holdfast, cli: Any) -> None:
    """A message says so; nothing of the session is ended for want of memory."""
    session = hf.new("narrow", memory="256m")
    begun(session, "open", megabytes=64)
    told = cli("snapshot", "narrow", "--label", "kept")
    assert "there is not enough memory to copy" in told.err, told
    snapshot = hf.snapshot("kept")
    assert copied_later(snapshot) == 0
    assert heaps(session, "open") == "equal 0 0"
    assert heaps(snapshot.restore("copy"), "open") == "equal 0 0"
