"""A process whose life depends on a second one's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.snapshots.checkpointer.restore.restore_lifeline import Lifeline

# Says each line it is given and each SIGUSR1, so that a test sees that it runs as always.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: print("signal", flush=True))
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    print(line.strip(), flush=True)
"""
TRACER = """
import subprocess, sys
from holdfast.snapshots.checkpointer.restore.restore_lifeline import Lifeline
line = Lifeline(int(sys.argv[1]))
print("held", flush=True)
child = subprocess.Popen(["sleep", "1000"])
try:
    line.wait(child)
finally:
    child.kill()
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with started:
        assert said(started) == "ready"
        yield started
        started.kill()


def said(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def tell(program: subprocess.Popen[str], text: str) -> None:
    assert program.stdin is not None
    program.stdin.write(text + "\n")
    program.stdin.flush()


def test_a_held_process_runs_as_before_and_after(program: subprocess.Popen[str]) -> None:
    """It works, and gets its signals; when it is let go, nothing traces it any more."""
    line = Lifeline(program.pid)
    tell(program, "held")
    assert said(program) == "held"
    os.kill(program.pid, signal.SIGUSR1)
    child = subprocess.Popen(["sh", "-c", "exit 3"])
    assert line.wait(child) == 3
    line.let_go()
    assert said(program) == "signal"
    tell(program, "free")
    assert said(program) == "free"
    with open(f"/proc/{program.pid}/status") as status:  # noqa: PTH123
        assert "TracerPid:\t0\n" in status.read()


def test_a_held_process_ends_with_its_holder(program: subprocess.Popen[str]) -> None:
    """Even if that one is killed and can do nothing about it."""
    tracer = subprocess.Popen(
        [sys.executable, "-c", TRACER, str(program.pid)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with tracer:
        assert said(tracer) == "held"
        os.killpg(tracer.pid, signal.SIGKILL)
        assert program.wait(30) == -signal.SIGKILL


def test_the_end_of_a_held_process_is_noticed(program: subprocess.Popen[str]) -> None:
    """There is nothing to let go then."""
    line = Lifeline(program.pid)
    program.kill()
    line.wait(subprocess.Popen(["true"]))
    line.let_go()
    line.end()


def test_a_held_process_can_be_ended(program: subprocess.Popen[str]) -> None:
    """As when the memory it waits for does not come."""
    line = Lifeline(program.pid)
    line.end()
    assert program.wait(30) == -signal.SIGKILL


def test_excess_resources_are_reported() -> None:
    """Nothing is restored then."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(OSError, match="ptrace"):
        Lifeline(ended.pid)
