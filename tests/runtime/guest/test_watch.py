"""A real supervisor watches the processes that were left running, and records their ends."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest

TELLS_EXITS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 15)


def entries(guest: Guest, *kinds: str) -> list[dict[str, Any]]:
    return [json.loads(frame.payload) for frame in guest.ask("journal", kinds=list(kinds))[:-1]]


def first(guest: Guest, kind: str, after: int = 0) -> dict[str, Any]:
    """Wait for an entry."""
    with guest.call("journal", kinds=[kind], follow=True, after_seq=after) as journal:
        entry: dict[str, Any] = json.loads(journal.until("entry").payload)
        return entry


def look(guest: Guest) -> None:
    """Have the supervisor scan all processes now, as it does before a capture."""
    guest.pause_and_wake()


def pid_of(guest: Guest, command: str, **args: Any) -> int:
    """Leave something running and return its pid."""
    done = guest.exec(f"{{ {command} ; }} >/dev/null 2>&1 & echo $!", **args)
    pid = int(done.output.split()[-1])
    look(guest)
    return pid


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ("kill %d", {"signal": signal.SIGTERM, "cause": "signal"}),
        ("kill -9 %d", {"signal": signal.SIGKILL, "cause": "signal"}),
    ],
)
def test_the_end_of_a_background_job(guest: Guest, ending: str, told: dict[str, Any]) -> None:
    """It is reported with its signal and the command that had started it."""
    pid = pid_of(guest, "exec sleep 1000", id="starter")
    while b"sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        os.sched_yield()
    look(guest)
    with guest.begin(f"{ending % pid}; until [ -e seen ]; do sleep 0.01; done", id="killer") as killer:
        entry = first(guest, "process_exited")
        (guest.folder / "work" / "seen").touch()
        killer.until("finished")
    assert (entry["pid"], entry["command"], entry["ports"]) == (pid, "sleep 1000", [])
    assert (entry["origin"]["kind"], entry["origin"]["id"]) == ("command", "starter")
    assert {key: entry[key] for key in told} == told
    assert "killer" in [each["id"] for each in entry["during"]]


def test_an_exit_code_is_reported(guest: Guest) -> None:
    """A child of the shell, which reaps it before any other process could query it; Linux 6.15 reports it."""
    pid = pid_of(guest, "until [ -e go ]; do sleep 0.01; done; exit 7")
    guest.exec("touch go")
    entry = first(guest, "process_exited")
    told = (7, "exited") if TELLS_EXITS else (entry.get("exit_code"), entry["cause"])
    assert (entry["pid"], entry.get("exit_code"), entry["cause"]) == (pid, *told)


def test_the_end_of_a_daemon_with_its_port(guest: Guest) -> None:
    """It left its parents, its group and its session, and listened on a port."""
    code = """
import os, socket, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
server = socket.create_server(("127.0.0.1", 0))
with open("port.new", "w") as file: print(server.getsockname()[1], os.getpid(), file=file)
os.rename("port.new", "port")
while not os.path.exists("go"): time.sleep(0.01)
os._exit(3)
"""
    (guest.folder / "work" / "daemon.py").write_text(code)
    done = guest.exec("python3 daemon.py; until [ -e port ]; do sleep 0.01; done; cat port", id="d")
    port, pid = (int(word) for word in done.output.split())
    look(guest)
    guest.exec("touch go")
    entry = first(guest, "process_exited")
    assert (entry["pid"], entry["exit_code"], entry["ports"]) == (pid, 3, [port])
    assert (entry["origin"]["kind"], entry["origin"]["id"]) == ("command", "d")


def test_a_process_that_a_cell_left_running(guest: Guest) -> None:
    """It is reported even if no process reaps it."""
    frames = guest.run_cell(
        "import subprocess; p = subprocess.Popen(['sleep', '1000']); print(p.pid)", id="c"
    )
    pid = next(int(frame.payload) for frame in frames if frame.event == "stream")
    look(guest)
    guest.exec(f"kill {pid}")
    entry = first(guest, "process_exited")
    assert (entry["pid"], entry["signal"], entry["origin"]["id"]) == (pid, signal.SIGTERM, "c")


def test_a_process_that_dies_during_a_pause_is_found_missing(guest: Guest) -> None:
    """A process's descriptors are closed while the supervisor can be captured."""
    pid = pid_of(guest, "until [ -e go ]; do sleep 0.01; done; exit 4")
    head = guest.prepare()
    assert not [link for link in guest.open_files() if "pidfd" in link]
    (guest.folder / "work" / "go").touch()
    while Path(f"/proc/{pid}").exists():
        os.sched_yield()
    guest.wake(token=head["token"], event="resumed")
    entry = first(guest, "process_exited")
    assert entry["pid"] == pid
    assert entry["cause"] in ("exited", "unknown")


def test_the_end_of_a_shell_and_of_a_kernel(guest: Guest) -> None:
    """They are reported with signal and cause; a kernel that was to be restarted was not killed."""
    shell = guest.shell()["pid"]
    guest.exec("exec bash -c 'kill -9 $$'")
    ended = first(guest, "shell_ended")
    assert (ended["shell"], ended["pid"], ended["signal"], ended["cause"]) == ("main", shell, 9, "signal")
    guest.run_cell("'it has begun'")
    guest.ask("kernel_restart")
    again = first(guest, "kernel_died")
    assert again["cause"] == "restarted"
    kernel = guest.ask("hello")[0].head["kernels"][0]["pid"]
    guest.run_cell("import os; os.kill(os.getpid(), 9)")
    died = first(guest, "kernel_died", again["seq"])
    assert (died["kernel"], died["pid"], died["signal"], died["cause"]) == ("main", kernel, 9, "signal")


def test_a_process_that_ends_with_its_command_is_not_reported(guest: Guest) -> None:
    """A command's result covers its own processes."""
    guest.exec("for i in 1 2 3; do sleep 0.01; done; (exit 3); ls | cat")
    look(guest)
    assert entries(guest, "process_exited") == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="captures make no twins on other processors")
def test_the_end_of_a_twin_is_not_reported(guest: Guest) -> None:
    """Whatever state it is in: here it sleeps, as a twin does whose control group is frozen."""
    code = f"""
import ctypes, time
mask = ctypes.c_uint64(~(1 << {signal.SIGTRAP - 1}) & (1 << 64) - 1)
assert ctypes.CDLL(None).syscall(14, 2, ctypes.byref(mask), None, 8) == 0  # rt_sigprocmask, SIG_SETMASK
open("masked", "w").close()
time.sleep(1000)
"""
    (guest.folder / "work" / "twin.py").write_text(code)
    started = guest.exec("python3 twin.py & until [ -e masked ]; do sleep 0.01; done; echo $!")
    twin = int(started.output.split()[-1])
    other = pid_of(guest, "exec sleep 1000")
    guest.exec(f"kill -9 {twin}; kill {other}")
    assert first(guest, "process_exited")["pid"] == other
    look(guest)
    assert [each["pid"] for each in entries(guest, "process_exited")] == [other]


def test_the_next_result_reports_deaths(guest: Guest) -> None:
    """It does so once, so that the death is not a surprise three commands later."""
    pid = pid_of(guest, "exec sleep 1000")
    told = guest.exec(f"kill -9 {pid}", actor="agent:a").finished.get("news", [])
    first(guest, "process_exited")
    told += guest.exec("true", actor="agent:a").finished.get("news", [])
    assert [(each["kind"], each["pid"], each["signal"]) for each in told] == [("process_exited", pid, 9)]
    assert "news" not in guest.exec("true", actor="agent:a").finished
