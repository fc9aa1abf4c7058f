"""When a process tree counts as frozen."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.ground import tree


class Proc:
    """A /proc with just what is read."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, pid: int, state: str, children: str = "", inner: int = 0) -> None:
        task = self.root / str(pid) / "task" / str(pid)
        task.mkdir(parents=True, exist_ok=True)
        (task / "stat").write_text(f"{pid} (odd) name) {state} 1 1")
        (task / "children").write_text(children)
        (task / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\t{inner or pid}\n")
        (self.root / str(pid) / "status").write_text((task / "status").read_text())


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(walk, "PROC", tmp_path)
    return Proc(tmp_path)


def test_two_equal_scans_are_needed(proc: Proc) -> None:
    """One scan can have missed a child that a task made just before it stopped."""
    proc.add(10, "t", "11 ")
    proc.add(11, "t")
    watch = tree.FreezeWatch(10)

    assert [watch.all_stopped(), watch.all_stopped()] == [False, True]


def test_one_running_task_is_enough_to_wait(proc: Proc) -> None:
    """A scan with a running task starts the count again."""
    proc.add(10, "t", "11 ")
    proc.add(11, "R")
    watch = tree.FreezeWatch(10)
    first = watch.all_stopped()
    proc.add(11, "t")

    assert [first, watch.all_stopped(), watch.all_stopped()] == [False, False, True]


def test_a_new_child_restarts_the_count(proc: Proc) -> None:
    """The two scans must have seen the same tasks."""
    proc.add(10, "t")
    watch = tree.FreezeWatch(10)
    watch.all_stopped()
    proc.add(10, "t", "12 ")
    proc.add(12, "t")

    assert [watch.all_stopped(), watch.all_stopped()] == [False, True]


def test_zombies_cannot_run(proc: Proc) -> None:
    """A dead task that was not reaped does not hold up a capture."""
    proc.add(10, "t", "11 ")
    proc.add(11, "Z")
    watch = tree.FreezeWatch(10)

    assert [watch.all_stopped(), watch.all_stopped()] == [False, True]


def test_threads_count_for_the_highest_id(proc: Proc) -> None:
    """Thread ids come from the same allocator, and must be free in a restore."""
    proc.add(10, "t", inner=301)
    thread = proc.root / "10" / "task" / "17"
    thread.mkdir()
    (thread / "children").write_text("")
    (thread / "status").write_text("NSpid:\t17\t308\n")

    assert tree.highest_inner_pid([10]) == 308


def test_groups_and_sessions_count_for_the_highest_id(proc: Proc) -> None:
    """Their leaders can have ended; in a restore something takes the leader's id."""
    proc.add(10, "t", inner=301)
    (proc.root / "10" / "task" / "10" / "status").write_text(
        "NSpid:\t10\t301\nNSpgid:\t9\t305\nNSsid:\t8\t304\n"
    )

    assert tree.highest_inner_pid([10]) == 305


def test_a_root_is_found_by_its_inner_pid(proc: Proc) -> None:
    """The caller knows the pid the supervisor has in its own namespace."""
    proc.add(10, "S", "11 12 ")
    proc.add(11, "S", inner=7)
    proc.add(12, "S", inner=301)

    assert tree.find_by_inner_pid(10, 301) == 12
    with pytest.raises(tree.TargetMismatch):
        tree.find_by_inner_pid(10, 99)


def test_a_process_has_ended_with_its_last_thread(proc: Proc) -> None:
    """A zombie, a dead task and an ended one run no more; a stopped one can."""
    for pid, state in ((10, "Z"), (11, "X"), (12, "T"), (13, "t"), (14, "S")):
        proc.add(pid, state)

    assert [tree.has_ended(pid) for pid in (10, 11, 12, 13, 14, 99)] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]
