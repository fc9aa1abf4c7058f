"""A shell that ends while no command runs in it, or before one can, and a supervisor that cannot be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, Refused

PATIENCE = 60.0


@pytest.fixture
def guest(marks_library: Path) -> Iterator[Guest]:
    running = Guest(marks_library)
    yield running
    running.stop()


def test_a_shell_that_ended_in_between_is_reported(guest: Guest) -> None:
    """To everyone who used it, with their next result: its variables, directory and jobs are lost."""
    assert guest.exec("KEEP=1", actor="agent:a").exit_code == 0
    assert guest.exec("true", actor="agent:b").exit_code == 0
    pid = guest.shell()["pid"]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while guest.shell()["pid"] in (pid, None) or guest.shell()["state"] != "prompt":
        assert time.monotonic() < deadline

    for actor in ("agent:a", "agent:b"):
        ended = guest.exec("echo .$KEEP", actor=actor)
        assert ended.output == b".\r\n"
        (news,) = ended.news
        assert (news["kind"], news["shell"], news["pid"], news["signal"]) == ("shell_ended", "main", pid, 9)
        assert "news" not in guest.exec("true", actor=actor).finished
    assert "news" not in guest.exec("true", actor="agent:c").finished


def test_a_command_that_ends_its_shell_is_not_news_to_its_caller(guest: Guest) -> None:
    """Its own result says so; the others who used the shell are notified."""
    guest.exec("KEEP=1", actor="agent:b")
    assert guest.exec("exit 3", actor="agent:a").shell_exited
    assert "news" not in guest.exec("true", actor="agent:a").finished
    (news,) = guest.exec("true", actor="agent:b").news
    assert (news["kind"], news["exit_code"], news["actor"]) == ("shell_ended", 3, "agent:a")


def test_a_settings_file_that_ends_the_shell_is_named(marks_library: Path) -> None:
    """Instead of a shell that is being started for ever."""
    guest = Guest(marks_library, home={".bashrc": "exit 3\n"})
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            with pytest.raises(Refused) as refused:
                guest.exec("true")
            if "ended the shell" in str(refused.value):
                break
            assert time.monotonic() < deadline
        assert "`~/.bashrc` ended the shell with exit code 3, " in str(refused.value)
        (guest.home / ".bashrc").unlink()
        while True:
            try:
                assert guest.exec("echo there").output == b"there\r\n"
                break
            except Refused:
                assert time.monotonic() < deadline
    finally:
        guest.stop()


def test_the_supervisor_outlives_signals(guest: Guest) -> None:
    """All that can be handled but SIGTERM, which its parent sends in the end. Its children heed them all."""
    spared = {signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
    for number in signal.valid_signals() - spared - faults - {signal.SIGSYS}:
        os.kill(guest.process.pid, number)
    assert guest.exec("echo there").output == b"there\r\n"
    assert guest.exec("sh -c 'kill -USR1 $$'").exit_code == 128 + signal.SIGUSR1
    assert guest.process.poll() is None


def test_the_supervisors_name_is_not_an_interpreters() -> None:
    """Neither for `pkill` nor for `pkill -f`; the shown command line is the whole one."""
    look = (
        "from holdfast.runtime.guest import own_process; own_process.take_name(); "
        "print(open('/proc/self/comm').read().strip(), open('/proc/self/cmdline').read().rstrip(chr(0)))"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    assert found == "holdfast /opt/holdfast/guest\n"
