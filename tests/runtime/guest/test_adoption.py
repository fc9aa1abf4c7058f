"""A supervisor that is killed is followed by another, which finds shells, kernel and jobs as they were."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import MARKS, PATIENCE, Guest, Refused

KEEPER = MARKS.with_name("keeper.c")


class KeptGuest(Guest):
    """A supervisor below a keeper."""

    keeper: Path

    def words(self) -> list[str]:
        return [str(self.keeper), *super().words()]

    @property
    def supervisor(self) -> int:
        return int(self.ask("hello")[0].head["pid"])

    def kill(self) -> None:
        """Kill the supervisor, and wait for the next one."""
        before = self.supervisor
        os.kill(before, signal.SIGKILL)
        while True:
            self.wait_for_socket()
            try:
                if self.supervisor != before:
                    return
            except (OSError, ValueError, IndexError):
                os.sched_yield()

    def stop(self) -> None:
        supervisor = self.supervisor
        self.process.kill()
        self.process.wait(PATIENCE)
        os.kill(supervisor, signal.SIGTERM)
        while Path(f"/proc/{supervisor}").exists():
            os.sched_yield()
        super().stop()


@pytest.fixture(scope="session")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("keeper") / "keeper"
    words = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", '-DKNOWS_PAST="/"', "-o", program, KEEPER]
    subprocess.run(list(map(str, words)), check=True)
    return program


@pytest.fixture
def guest(marks_library: Path, keeper: Path) -> Iterator[KeptGuest]:
    KeptGuest.keeper = keeper
    running = KeptGuest(marks_library)
    yield running
    running.stop()


def entries(guest: Guest, *kinds: str) -> list[dict[str, Any]]:
    return [json.loads(frame.payload) for frame in guest.ask("journal", kinds=list(kinds))[:-1]]


def test_a_shell_continues_with_its_variables_and_its_output(guest: KeptGuest) -> None:
    """It is the same process in the same stream, at its prompt; the next result says what happened."""
    guest.run_cell("1")
    guest.exec("KEEP=1; cd /tmp; echo before")
    before = guest.shell()
    guest.kill()

    done = guest.exec("echo $KEEP $PWD")
    assert done.output == b"1 /tmp\r\n"
    assert guest.shell()["pid"] == before["pid"]
    assert done.start_offset > before["offset"] > 0
    (told,) = done.news
    assert (told["kind"], told["signal"], told["kept"]) == ("restarted", 9, ["shell main", "kernel main"])
    output = b"".join(frame.payload for frame in guest.ask("read") if frame.event == "output")
    assert b"before" in output
    assert b"1 /tmp" in output


def test_a_command_that_runs_is_joined_again(guest: KeptGuest) -> None:
    """Its output and exit code are the command's, wherever its supervisor died."""
    guest.begin("echo first; until [ -e go ]; do sleep 0.01; done; echo second; (exit 7)", id="long")
    guest.kill()
    joined = guest.call("exec", b"", id="long", again=True)
    joined.until("started")
    (guest.folder / "work" / "go").touch()
    frames = list(joined.frames())
    assert b"".join(frame.payload for frame in frames if frame.event == "output") == b"first\r\nsecond\r\n"
    assert (frames[-1].head["exit_code"], frames[-1].head["timed_out"]) == (7, False)
    assert [entry["id"] for entry in entries(guest, "command_ended")] == ["long"]
    with pytest.raises(Refused, match="whether that ran"):
        guest.exec("true", id="never", again=True)


def test_a_shell_that_ends_after_its_adoption_is_reported(guest: KeptGuest) -> None:
    """Its end is known, although another supervisor had started it, and a new one follows."""
    guest.exec("KEEP=1")
    guest.kill()
    guest.kill()
    ended = guest.exec("exit 3")
    assert (ended.shell_exited, ended.exit_code) == (True, 3)
    assert guest.exec("echo .$KEEP").output == b".\r\n"


def test_a_job_continues_to_its_exit_status(guest: KeptGuest) -> None:
    """Also a job that ends with its supervisor; its output is recorded."""
    guest.ask(
        "job_start", b"echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 5", id="job1", name="j"
    )
    with guest.call("job_wait", id="job1") as waiting:
        waiting.until_output(b"one")
    guest.kill()
    (guest.folder / "work" / "go").touch()
    frames = guest.ask("job_wait", id="job1")
    assert b"".join(frame.payload for frame in frames if frame.event == "output") == b"one\r\ntwo\r\n"
    assert frames[-1].head["exit_code"] == 5


def test_a_kernel_continues_with_its_variables(guest: KeptGuest) -> None:
    """And a cell that runs is joined again."""
    guest.run_cell("x = 41")
    guest.kill()
    frames = guest.run_cell("x + 1")
    assert frames[-1].head["status"] == "ok", frames
    assert any(b"42" in frame.payload for frame in frames)

    wait = "while not os.path.exists('go'): time.sleep(0.01)"
    code = f"import os, time\nprint('here', flush=True)\n{wait}\nprint(x)"
    with guest.cell(code, id="long") as running:
        while b"here" not in next(frame.payload for frame in running.frames() if frame.payload):
            pass
    guest.kill()
    with guest.call("cell", b"", id="long", again=True) as joined:
        joined.until("started")
        while guest.ask("hello")[0].head["kernels"][0]["state"] == "starting":
            os.sched_yield()
        (guest.folder / "work" / "go").touch()
        frames = list(joined.frames())
    assert frames[-1].head["status"] == "ok", frames
    text = b"".join(frame.payload for frame in frames if frame.event == "stream")
    assert text.startswith(b"here")
    assert text.endswith(b"41\n")
    assert guest.run_cell("x + 2")[-1].head["status"] == "ok"


def test_a_pause_of_a_killed_supervisor_holds_nothing_back(guest: KeptGuest) -> None:
    """Output that was held for a capture continues, and no capture takes the pause for complete."""
    supervisor = guest.supervisor
    guest.exec("KEEP=1")
    head = guest.prepare()
    paused = guest.run / f"paused-{head['token']}"
    assert paused.exists()
    os.kill(supervisor, signal.SIGKILL)
    guest.wait_for_socket()
    assert guest.exec("echo $KEEP").output == b"1\r\n"
    assert not paused.exists()


def test_sizes_shells_and_orphans_are_known_again(guest: KeptGuest) -> None:
    """Of a shell with a different name and size; the end of a process left running is reported."""
    guest.ask("shell_open", shell="side", rows=50, cols=200)
    pid = int(guest.exec("{ sleep 1000; } >/dev/null 2>&1 & echo $!", shell="side").output.split()[-1])
    guest.kill()
    side = next(each for each in guest.ask("hello")[0].head["shells"] if each["name"] == "side")
    assert (side["rows"], side["cols"]) == (50, 200)
    assert guest.exec("stty size", shell="side").output == b"50 200\r\n"
    assert guest.exec(f"kill -0 {pid}; kill {pid}; wait {pid}", shell="side").exit_code == 128 + 15


def test_the_keeper_bounds_its_holdings_and_drops_malformed_requests(keeper: Path, tmp_path: Path) -> None:
    """It serves on, closes descriptors that no one asked it to hold, and starts a killed program again."""
    found = tmp_path / "found"
    subprocess.run(
        [keeper, sys.executable, "-c", TALKS, found], check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    first, second = map(json.loads, found.read_text().splitlines())
    assert first == {"held": 0, "opened": 0}
    assert second["held"] == 192
    assert second["status"] == 9


TALKS = """
import array, json, os, socket, struct, sys
channel = socket.socket(fileno=int(os.environ["HOLDFAST_KEEPER"]))
def say(letter, key=b"", data=b"", fds=(), pid=0, length=None):
    head = struct.pack("=ciB", letter, pid, len(key) if length is None else length)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    channel.sendmsg([head + key + data], rights)
def held():
    say(b"L")
    count = 0
    while (message := channel.recvmsg(20000, 64)[0])[:1] != b"Z":
        count += message[:1] == b"E"
    return count
def note(**fields):
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(fields) + "\\n")
keepers = f"/proc/{os.getppid()}/fd"
if ended := os.environ.get("HOLDFAST_SUPERVISOR_ENDED"):
    note(held=held(), status=int(ended))
    sys.exit()
before = len(os.listdir(keepers))
channel.send(b"H")
say(b"H", b"a" * 200, b"{}")
say(b"H", b"key", length=255)
say(b"?", b"key", b"{}", fds=(0, 1))
say(b"H", b"key", b"x" * 20000, fds=(0,))
note(held=held(), opened=len(os.listdir(keepers)) - before)
for number in range(300):
    say(b"H", b"key%d" % number, b"{}", fds=(0,) * 3)
os.kill(os.getpid(), 9)
"""
