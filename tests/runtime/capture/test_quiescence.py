"""Whether all tasks of a container wait, and whether one has run since: from proc(5)."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.runtime.capture import quiescence, reuse_check
from holdfast.runtime.capture.quiescence import ContainerSample

READ = "0 0x0 0x7f0000000000 0x1 0x0 0x0 0x0 0x7ffe00000000 0x7f00000000ff"


def call(number: int, *args: int) -> str:
    return " ".join([str(number), *(hex(arg) for arg in (*args, 0, 0, 0, 0, 0, 0)[:6]), "0x7ffe0", "0x7f0"])


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (READ, True),
        (call(232, 3, 0x7F0000000000, 6, 0xFFFFFFFFFFFFFFFF), True),
        (call(232, 3, 0x7F0000000000, 6, 0xFFFFFFFF), True),
        (call(232, 3, 0x7F0000000000, 6, 10_000), False),
        (call(7, 0x7F0000000000, 2, 0xFFFFFFFF), True),
        (call(7, 0x7F0000000000, 2, 0), False),
        (call(270, 1, 0x7FFC00000000), True),
        (call(270, 1, 0x7FFC00000000, 0, 0, 0x7FFC00000010), False),
        (call(202, 0x7F0000000000, 0x80, 1), True),
        (call(202, 0x7F0000000000, 0x189, 1, 0x7F0000000010), False),
        (call(202, 0x7F0000000000, 1, 1), False),
        (call(61, 0xFFFFFFFF), True),
        (call(230, 1, 1, 0x7F0000000000), False),
        (call(35, 0x7F0000000000), False),
        (call(219), False),
        (call(45, 3), False),
        ("running", False),
        ("-1 0x7ffe0 0x7f0", False),
        ("", False),
        ("0 x y z a b c d e", False),
    ],
)
def test_only_outside_events_end_a_wait(line: str, meant: bool) -> None:
    """Waiting without a timeout; all other calls, and unknown ones, can end at any time."""
    assert quiescence.endless(line, "x86_64") is meant
    assert quiescence.endless(line, "riscv64") is False


class Machine:
    """A container as proc(5) and cgroups(7) show it."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroups = root / "proc", root / "cgroup"
        self.folder = self.cgroups / "box"
        self.folder.mkdir(parents=True)
        self.usage(5000)
        for pid, inner in ((100, 1), (101, 301), (102, 310)):
            self.task(pid, pid, inner)

    def usage(self, microseconds: int) -> None:
        (self.folder / "cpu.stat").write_text(f"usage_usec {microseconds}\nuser_usec 1\n")

    def task(
        self, pid: int, tid: int, inner: int, ran: int = 1000, line: str = READ, state: str = "S"
    ) -> None:
        folder = self.proc / str(pid) / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid) / "cgroup").write_text("0::/box\n")
        (self.proc / str(pid) / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\t{inner}\n")
        (folder / "stat").write_text(f"{tid} (a (b) c) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0")
        (folder / "schedstat").write_text(f"{ran} 5 9\n")
        (folder / "syscall").write_text(line + "\n")
        pids = sorted(path.name for path in self.proc.iterdir())
        (self.folder / "cgroup.procs").write_text("\n".join(pids) + "\n")

    def look(self) -> ContainerSample:
        found = quiescence.look(100, 301, self.proc, self.cgroups)
        assert found is not None
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_supervisor_is_distinguished(machine: Machine) -> None:
    """It answers us, so it runs; the others count."""
    machine.task(101, 101, 301, line="running", state="R")
    found = machine.look()

    assert found.still
    assert list(found.own) == ["101 101 777"]
    assert quiescence.decode(json.loads(json.dumps(found.encode()))) == found


def test_a_running_task_is_not_idle(machine: Machine) -> None:
    """Nor is a task that was woken and has not run yet."""
    machine.task(102, 103, 310, state="R")

    assert not machine.look().still


def test_samples_are_equal_only_if_nothing_ran(machine: Machine) -> None:
    """A task that ran, a new one, one with the pid of another, and time spent by short-lived ones."""
    before = machine.look()
    assert machine.look().same(before)
    machine.task(101, 101, 301, ran=9_001_000)
    machine.usage(14_000)
    assert machine.look().same(before)

    machine.usage(24_000)
    assert not machine.look().same(before)
    machine.usage(14_000)
    machine.task(102, 102, 310, ran=1001)
    assert not machine.look().same(before)
    machine.task(102, 102, 310)
    assert machine.look().same(before)
    machine.task(104, 104, 320)
    assert not machine.look().same(before)
    assert not replace(before, own={}).same(before)


def test_a_partial_view_gives_no_sample(machine: Machine) -> None:
    """A task that ended in the meantime, a container without a supervisor, a removed one."""
    (machine.proc / "102" / "task" / "102" / "syscall").unlink()
    assert quiescence.look(100, 301, machine.proc, machine.cgroups) is None
    machine.task(102, 102, 310)
    assert quiescence.look(100, 999, machine.proc, machine.cgroups) is None
    assert quiescence.look(4000, 301, machine.proc, machine.cgroups) is None


def test_a_timer_is_found_before_it_expires(machine: Machine) -> None:
    """A timer of the process, one it holds as a descriptor, an alarm it would catch; a shell always would."""

    def process(comm: str, caught: str, timers: str = "", fd: str = "/dev/null") -> bool:
        for pid in ("100", "102"):
            folder = machine.proc / pid
            (folder / "fd").mkdir(exist_ok=True)
            (folder / "comm").write_text("init\n")
            (folder / "timers").write_text("")
            (folder / "status").write_text("Name:\tx\nNSpid:\t102\t310\nSigCgt:\t0000000000000002\n")
        (folder / "comm").write_text(f"{comm}\n")
        (folder / "timers").write_text(timers)
        (folder / "status").write_text(f"Name:\tx\nNSpid:\t102\t310\nSigCgt:\t{caught}\n")
        (folder / "fd" / "3").unlink(missing_ok=True)
        (folder / "fd" / "3").symlink_to(fd)
        return quiescence.clocked(machine.look(), machine.proc)

    assert not process("python3", "0000000000000002")
    assert process("python3", "0000000000002002")
    assert not process("bash", "0000000000002002")
    assert process("bash", "0000000000002002", timers="ID: 0\nsignal: 14/0\n")
    assert process("node", "0000000000000000", fd="anon_inode:[timerfd]")
    (machine.proc / "102" / "timers").unlink()
    assert quiescence.clocked(machine.look(), machine.proc)


def test_changed_files_are_seen(tmp_path: Path) -> None:
    """New, changed and removed ones; but not those the supervisor writes for itself."""
    own = tmp_path / "var" / "lib" / "holdfast" / "shells"
    own.mkdir(parents=True)
    (tmp_path / "srv" / "deep").mkdir(parents=True)
    (tmp_path / "srv" / "deep" / "file").write_text("one")
    (tmp_path / "srv" / "link").symlink_to("/nowhere")

    def newest() -> float:
        return max(os.lstat(path).st_ctime for path in (tmp_path, *tmp_path.rglob("*")))

    def come_and_go() -> None:
        (tmp_path / "srv" / "new").touch()
        (tmp_path / "srv" / "new").unlink()

    moment = newest()
    (own / "output").touch()
    while (own / "output").stat().st_ctime <= moment:
        (own / "output").write_text("what the shell said")
    assert not reuse_check.touched(tmp_path, moment)
    for change in (
        lambda: (tmp_path / "srv" / "deep" / "file").write_text("two"),
        lambda: (tmp_path / "srv" / "deep" / "file").chmod(0o600),
        lambda: (tmp_path / "var" / "lib" / "other").touch(),
        come_and_go,
    ):
        moment = newest()
        assert not reuse_check.touched(tmp_path, moment)
        while newest() <= moment:  # the clock of files is a coarse one
            change()
        assert reuse_check.touched(tmp_path, moment)
