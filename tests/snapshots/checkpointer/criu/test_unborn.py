"""Tasks that wait for a child of vfork are found, and a capture is begun when there is none."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.criu import standstill, unborn
from holdfast.snapshots.checkpointer.criu.unaccepted import Unaccepted
from holdfast.snapshots.checkpointer.ground.freezer import NotFrozen

CALLS = (58, 56, 435)
# The child waits for a byte, and only then ends. It shares its parent's memory, so it is C.
PARENT = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static int child(void *input) { char byte; return read(0, &byte, 1) != 1; }
int main(int count, char **words) {
    static char stack[65536];
    write(1, "begun\n", 6);
    clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    write(1, "ended\n", 6);
    return pause();
}
"""


@pytest.mark.parametrize(
    ("told", "waits"),
    [
        ("58 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", True),
        ("56 0x4111 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", True),
        ("56 0x1200011 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", False),
        ("435 0x7ffd 0x58 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", True),
        ("0 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f01\n", False),
        ("-1 0x7ffd 0x7f01\n", False),
        ("running\n", False),
        ("56 what\n", False),
        ("", False),
    ],
)
def test_what_a_task_waits_for_is_reported_by_its_call(told: str, waits: bool) -> None:
    """By number and flags; any other line is ignored."""
    assert unborn.is_waiting(told, CALLS) is waits


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = tmp_path / "parent"
    build = ["cc", "-w", "-x", "c", "-o", str(program), "-"]
    subprocess.run(build, input=PARENT.encode(), check=True)
    with subprocess.Popen([program], stdin=-1, stdout=-1) as process:
        yield process
        process.kill()


def test_a_process_that_waits_for_its_child_is_found(parent: subprocess.Popen[bytes]) -> None:
    """As long as the child has neither ended nor started a program; one that is gone does not count."""
    assert parent.stdout is not None
    assert parent.stdin is not None
    assert parent.stdout.readline() == b"begun\n"
    deadline = time.monotonic() + 60
    while not (found := list(unborn.waiting([parent.pid]))):
        assert time.monotonic() < deadline
    assert found == [parent.pid]
    parent.stdin.write(b"x")
    parent.stdin.flush()
    assert parent.stdout.readline() == b"ended\n"
    assert list(unborn.waiting([parent.pid, os.getpid(), 2**22 + 1])) == []


class Group:
    """A freezer whose tasks wait for a child the first times it is frozen."""

    def __init__(self, unborn: int) -> None:
        self.unborn, self.calls = unborn, ""

    def freeze(self) -> None:
        self.calls += "f"

    def thaw(self) -> None:
        self.calls += "t"

    def members(self) -> tuple[int, ...]:
        return (1, 2)

    def waiting(self, pids: tuple[int, ...]) -> list[int]:
        self.unborn -= 1
        return [2] if self.unborn >= 0 else []


def test_a_session_is_frozen_when_no_child_is_being_born(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on in between, so that the child gets on."""
    group = Group(3)
    monkeypatch.setattr(unborn, "waiting", group.waiting)
    standstill.freeze(group, Unaccepted)
    assert group.calls == "ftftftf"


def test_a_child_that_is_never_born_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of times; then the session runs on, and who it is is named."""
    group = Group(10**6)
    monkeypatch.setattr(unborn, "waiting", group.waiting)
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    with pytest.raises(NotFrozen, match="does not stop"):
        standstill.freeze(group, Unaccepted)
    assert group.calls == "ft" * 6
