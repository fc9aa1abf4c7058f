"""Large heaps are copied while the session runs again: from twins of their processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import polling
from holdfast.procfs import process_stat, process_status
from holdfast.procfs.process_status import ProcessStatus
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.snapshots.checkpointer.ground import cgroups

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

# After SIGUSR1 it takes memory until the kernel has killed a process for it, and keeps the memory.
HOG = """
import os, signal, sys
def kills():
    for path in ('memory/memory.oom_control', 'memory.events'):
        if os.path.exists(f'/sys/fs/cgroup/{path}'):
            found = dict(line.split() for line in open(f'/sys/fs/cgroup/{path}'))
            return int(found['oom_kill'])
signal.signal(signal.SIGUSR1, lambda *_: None)
before, held = kills(), []
open('/srv/hog', 'w')
signal.pause()
while kills() == before:
    held.append(b'x' * (256 << 10))
open('/srv/full', 'w')
while True:
    signal.pause()
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
    """Then the heaps are written while the session is frozen. The earlier attempt is not an event of the
    session, nor is the end of a twin.
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


def group_of(hf: Holdfast, session: Session, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the session's control group that can be frozen."""
    monkeypatch.setattr(cgroups, "HOST_CGROUPS", Path("/sys/fs/cgroup"))
    state = hf.engine.inspect(str(session.row.container_id))
    assert state is not None
    found = {words: folder for words, folder in cgroups.folders(state.pid) if words in ("freezer", "")}
    return found.get("freezer") or found[""]


def members(group: Path, words: str) -> set[int]:
    """Return the processes of a control group whose command lines begin with these words."""
    found = set()
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").startswith(words):
                found.add(int(pid))
    return found


def twin_of(program: int, group: Path) -> int:
    """Return the twin of a program; 0 if there is none now, or only the process that is to make it."""
    for pid in members(group, "python3 /srv/heaps.py") - {program}:
        with suppress(OSError):
            found = process_stat.parse(Path(f"/proc/{pid}/stat").read_bytes())
            if found is not None and found.parent != program:
                return pid
    return 0


def ended(session: Session) -> list[str]:
    """Return the programs whose ends are events of the session."""
    return [str(each.data["command"]) for each in session.events(kinds=["process_exited"])]


@contextmanager
def held(group: Path) -> Iterator[Callable[[int], object]]:
    """Yield a function that holds a process of the group until the end of the block, even if it is killed."""
    inner = group / "held"
    inner.mkdir()
    first = inner / "freezer.state"
    switch, (stop, go) = (first, ("FROZEN", "THAWED")) if first.exists() else (inner / "cgroup.freeze", "10")
    try:
        switch.write_text(stop)
        yield lambda pid: (inner / "cgroup.procs").write_text(str(pid))
    finally:
        switch.write_text(go)
        assert polling.until(lambda: not (inner / "cgroup.procs").read_text(), PATIENCE)
        inner.rmdir()


@pytest.mark.thorough
def test_the_end_of_a_slow_twin_is_no_event(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine, a twin is ended in more seconds than a supervisor waits in its pause.

    The session is used in the meantime, its processes are scanned, and the end of a program is an event. The
    capture has one outcome, which is that it succeeded.
    """
    session = hf.new("slow")
    begun(session, "open")
    session.exec("sleep 98765 & disown")
    group = group_of(hf, session, monkeypatch)
    (program,), (sleeper,) = members(group, "python3 /srv/heaps.py"), members(group, "sleep 98765")
    with ThreadPoolExecutor(1) as pool:
        with held(group) as hold:
            twin = 0
            while not twin:
                capture = pool.submit(session.snapshot)
                while not (twin := twin_of(program, group)) and not capture.done():
                    pass
            hold(twin)
            os.kill(sleeper, signal.SIGKILL)
            assert session.exec("echo here", busy_wait=PATIENCE).text == "here\n"
            assert polling.until(lambda: ended(session), PATIENCE)
            assert members(group / "held", "python3")
        assert copied_later(capture.result(PATIENCE)) >= BOTH
    outcomes = [each.data["event"] for each in session.events() if each.kind == "woken"]
    assert outcomes == ["started", *["resumed"] * (len(outcomes) - 1)]
    assert [each.kind for each in session.exec("true").news] == ["process_exited"]
    assert ended(session) == ["sleep 98765"]
    assert heaps(session, "open") == "equal 0 0"


def status(pid: int) -> ProcessStatus:
    """Return the status of a process. Raises OSError: it is gone."""
    found = process_status.parse(Path(f"/proc/{pid}/status").read_bytes())
    if found is None:
        raise ProcessLookupError(pid)
    return found


def copying(program: int, twin: int) -> int:
    """Return the process that copies from the twin of a program that runs again; 0 if none does."""
    with suppress(OSError):
        # When its tracer has let go of it, the freezer still holds it for a moment, which shows as D.
        if twin and status(twin).tracer and not status(program).tracer and status(program).state in "RS":
            return status(status(twin).tracer).parent
    return 0


def unshared(pid: int) -> int:
    """Return the bytes of a process's memory that no other process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_Dirty:"))


@pytest.mark.thorough
@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_a_twin_that_is_killed_for_its_memory_is_no_event(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """A program takes the memory while the heaps are copied; in a long capture the session is used meanwhile.

    The snapshot is taken all the same. A program that is killed later for its memory is an event.
    """
    session = hf.new("small", memory="512m")
    begun(session, "open")
    session.exec(f"cat > /srv/hog.py <<'END'\n{HOG}\nEND")
    session.exec("python3 /srv/hog.py & until [ -e /srv/hog ]; do :; done; disown", timeout=60)
    group = group_of(hf, session, monkeypatch)
    (program,), (hog,) = members(group, "python3 /srv/heaps.py"), members(group, "python3 /srv/hog.py")
    with ThreadPoolExecutor(1) as pool:
        worker = 0
        while not worker:
            capture = pool.submit(session.snapshot)
            while not capture.done() and not worker:
                worker = copying(program, twin_of(program, group))
            if worker:
                os.kill(worker, signal.SIGSTOP)
                if not (twin := twin_of(program, group)):
                    os.kill(worker, signal.SIGCONT)
                    worker = 0
        try:
            if is_long:
                assert session.exec("echo here", busy_wait=PATIENCE).text == "here\n"
            # The program writes, and the end of the twin frees the pages that are its own by then.
            assert polling.until(lambda: unshared(twin) > BOTH // 2, PATIENCE)
            os.kill(hog, signal.SIGUSR1)
            assert polling.until(Path(f"/proc/{hog}/root/srv/full").exists, PATIENCE)
            if is_long:
                assert session.exec("echo here", busy_wait=PATIENCE).news == ()
        finally:
            os.kill(worker, signal.SIGCONT)
        snapshot = capture.result(PATIENCE)
    assert session.exec("true").news == ()
    assert [each.data for each in session.events(kinds=["oom"])] == []
    assert (limits := session.pulse().limits) is not None
    assert limits.memory.oom_kills == 0
    assert heaps(session, "open") == "equal 0 0"
    os.kill(hog, signal.SIGKILL)
    assert session.exec("python3 -c 'held = [b\"x\" * (8 << 20) for _ in range(100)]'").exit_code == 137
    assert polling.until(lambda: [*session.events(kinds=["oom"])], PATIENCE)
    assert [each.data["kills"] for each in session.events(kinds=["oom"])] == [1]
    assert heaps(snapshot.restore("copy"), "open") == "equal 0 0"


def test_a_twin_holds_nothing_open(hf: Holdfast) -> None:
    """Descriptors that a program closes while its heaps are being copied are closed."""
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
