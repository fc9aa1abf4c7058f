"""Freezing of real processes by both versions of control groups. Needs root."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.procfs import process_stat
from holdfast.snapshots.checkpointer.ground import freezer
from holdfast.snapshots.checkpointer.ground.freezer import Freezer, NotFrozen

pytestmark = pytest.mark.engine

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
COUNTS = "import sys\nn = 0\nwhile True:\n n += 1\n sys.stdout.buffer.write(b'.'); sys.stdout.flush()"


def _hierarchies() -> dict[str, Path]:
    """Where each version is mounted here; at least one is."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            found["second"] = Path(before.split()[4])
        elif kind == "cgroup" and "freezer" in options.split(","):
            found["first"] = Path(before.split()[4])
    return found


HIERARCHIES = _hierarchies()


@pytest.fixture(params=sorted(HIERARCHIES))
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A control group of its own in each hierarchy that this machine has."""
    folder = HIERARCHIES[request.param] / f"holdfast-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    for pid in (folder / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    deadline = time.monotonic() + 60
    while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    folder.rmdir()


class Program:
    """A process in the group that writes without end."""

    def __init__(self, group: Path, output: Path) -> None:
        self.output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen([sys.executable, "-c", COUNTS], stdout=file)
        (group / "cgroup.procs").write_text(str(self.process.pid))
        self.runs()

    def runs(self) -> None:
        """Wait until it has written more."""
        before, deadline = self.written, time.monotonic() + 60
        while self.written == before:
            assert time.monotonic() < deadline, "it does not run"

    @property
    def written(self) -> int:
        return self.output.stat().st_size

    @property
    def state(self) -> str:
        return process_stat.fields(Path(f"/proc/{self.process.pid}/stat").read_bytes())[0].decode()


@pytest.fixture
def program(group: Path, tmp_path: Path) -> Iterator[Program]:
    made = Program(group, tmp_path / "output")
    yield made
    made.process.kill()
    made.process.wait()


@pytest.fixture
def frozen(group: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Freezer]:
    """The freezer of that group, thawed in the end."""
    kind = freezer._FIRST if (group / "freezer.state").exists() else freezer._SECOND
    monkeypatch.setattr(freezer, "_find", lambda _pid: (group, kind))
    made = Freezer(0)
    yield made
    made.thaw()


def test_frozen_processes_do_not_run_until_thawed(program: Program, frozen: Freezer) -> None:
    """`freeze` returns when it has stopped."""
    frozen.freeze()
    first = program.written
    assert frozen.members() == (program.process.pid,)
    assert all(program.written == first for _ in range(2000))
    frozen.thaw()
    program.runs()


def test_a_container_frozen_by_another_process_is_left_alone(program: Program, frozen: Freezer) -> None:
    """A paused container is refused, and stays paused."""
    frozen.freeze()
    other = Freezer(0)
    with pytest.raises(NotFrozen, match="paused"):
        other.freeze()
    other.thaw()
    first = program.written
    assert all(program.written == first for _ in range(2000))


def test_leftovers_are_thawed_once(program: Program, frozen: Freezer) -> None:
    """After the death of the process that froze it."""
    frozen.freeze()
    other = Freezer(0)
    assert [other.thaw_leftover(), other.thaw_leftover()] == [True, False]
    program.runs()


def test_a_frozen_task_that_is_seized_stops_without_running(program: Program, frozen: Freezer) -> None:
    """It goes from the freezer into the tracer's hands: the guard of a capture relies on that."""
    libc = ctypes.CDLL(None, use_errno=True)
    pid = program.process.pid
    frozen.freeze()
    first = program.written
    threads, switch, word = frozen.handles()
    assert os.read(threads, 100).split() == [str(pid).encode()]
    for request in (_SEIZE, _INTERRUPT):
        assert libc.ptrace(request, pid, ctypes.c_void_p(0), ctypes.c_void_p(0)) == 0
    os.write(switch, word.encode())
    os.waitpid(pid, 0x40000000)
    assert program.state == "t"
    assert program.written == first
    frozen.hold()
    assert libc.ptrace(_DETACH, pid, ctypes.c_void_p(0), ctypes.c_void_p(0)) == 0
    assert all(program.written == first for _ in range(2000))
    frozen.thaw()
    program.runs()
    os.close(threads)
    os.close(switch)
