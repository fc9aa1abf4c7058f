"""Processes that can be ended: the named ones, and no other that has their number now."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.dump import ending


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this machine that is in no session."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [0, 7])
def test_a_process_of_the_host_is_never_ended(bystander: subprocess.Popen[bytes], number: int) -> None:
    """One that has got the number of a process of a session has none in that session's namespace."""
    space = {"pid": 1}
    ending._kill(bystander.pid, number, 2, space)

    assert bystander.poll() is None
    assert ending._numbered([bystander.pid], 2) == {}
    assert not ending._lives(bystander.pid, number, 2, space)


def test_named_obstacles_are_ended(bystander: subprocess.Popen[bytes]) -> None:
    """By its number in its own namespace."""
    space = walk.namespaces_of(bystander.pid, ("pid",))
    status = walk.status_of(bystander.pid)
    assert status is not None
    depth = len(status.inner_pids)
    ending._kill(bystander.pid, status.inner_pid, depth, space)

    assert bystander.wait(60) == -9
