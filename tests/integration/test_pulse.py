"""The pulse of sessions on the real engine, also of restored ones."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest

from holdfast import Holdfast, Session, SessionError
from holdfast.runtime.pulse.pulse import Port

HOLD = (
    "import fcntl, os\n"
    "kept = open('/tmp/kept', 'w+'); kept.write('x' * 100); kept.flush(); fcntl.lockf(kept, fcntl.LOCK_EX)\n"
    "gone = open('/tmp/gone', 'w'); gone.write('abc'); gone.flush(); os.unlink('/tmp/gone')\n"
    "table = {'a': 1}\n"
)


@pytest.fixture(scope="module")
def served(shared: Session) -> Session:
    """A session in which a web server runs, and the kernel holds files."""
    serve(shared, 8123)
    hold(shared)
    return shared


def hold(session: Session) -> None:
    """Make the kernel hold files and a name, and wait until the pulse shows it: a kernel can be slow."""
    session.cell(HOLD)
    while not any(
        kernel.variables is not None and "table" in {row.name for row in kernel.variables.rows}
        for kernel in session.pulse(parts=["kernels", "variables"]).kernels
    ):
        pass


def serve(session: Session, port: int) -> Port:
    """Start a web server and wait until it listens."""
    session.exec(f"python3 -m http.server {port} >/dev/null 2>&1 &")
    while not (found := session.port(port)).listeners:
        os.sched_yield()
    return found


def test_listeners_and_their_answers(served: Session, shared_cli: Any) -> None:
    """A port is reported with its process, that process's origin, and the answer of the server."""
    done = shared_cli("pulse", "shared", "--port", "8123", "--json")
    (listener,) = done.json["listeners"]
    assert (done.code, done.json["answers"], listener["http_status"]) == (0, True, 200)
    assert listener["process"]["command"] == "python3 -m http.server 8123"
    assert listener["process"]["origin"]["command"].startswith("python3 -m http.server 8123")
    text = shared_cli("pulse", "shared", "--port", "8123")
    assert "answers: HTTP/1.0 200 OK" in text.out
    nobody = shared_cli("pulse", "shared", "--port", "3000")
    assert (nobody.code, nobody.out) == (1, "port 3000: nothing listens\n")
    assert shared_cli("pulse", "shared", "--port", "70000").code == 1


def test_a_server_that_hangs_is_recognized(served: Session, shared_cli: Any) -> None:
    """A port whose queue is full does not answer, which has an exit code of its own."""
    served.cell(
        "import socket\nfull = socket.create_server(('127.0.0.1', 8124), backlog=0)\n"
        "waiting = [socket.socket() for _ in range(4)]\n"
        "for each in waiting: each.setblocking(False); each.connect_ex(('127.0.0.1', 8124))"
    )
    done = shared_cli("pulse", "shared", "--port", "8124")
    assert done.code == 3
    assert "does not answer" in done.out
    served.cell("for each in [full, *waiting]: each.close()")


def test_one_screen_for_people(served: Session, shared_cli: Any) -> None:
    """It has shell, kernel, processes, sockets and locks, and the session's origin."""
    done = shared_cli("pulse", "shared")
    assert done.code == 0
    for expected in ("shared · up ", "kernel main: idle", "table dict 1", ":8123", "/tmp/gone", "deleted"):
        assert expected in done.out


def test_json_is_the_value_of_the_interface(served: Session, shared_cli: Any) -> None:
    """Limits are those the session was made with, and the supervisor's own children count as its own."""
    found = served.pulse()
    told = shared_cli("pulse", "shared", "--json").json
    assert set(told) == set(found.as_dict())
    assert told["limits"]["pids"]["limit"] == 4096
    assert found.memory is not None
    assert found.memory.used is not None
    assert 0 < found.memory.used < (found.memory.limit or 0)
    shell = served.shell().pid
    (terminal,) = found.terminals
    assert terminal.pid == shell
    above = found.process(shell)
    assert above is not None
    supervisor = found.process(above.ppid)
    assert supervisor is not None
    assert supervisor.origin is not None
    assert supervisor.origin.kind == "supervisor"
    assert told["terminals"][0]["screen"] is not None


def test_processes_of_other_users_are_open_to_us(served: Session) -> None:
    """Files and sockets of a process of another user are reported like our own."""
    code = (
        "import socket, time; f = open('/tmp/theirs', 'w'); "
        "s = socket.create_server(('', 8125)); time.sleep(999)"
    )
    served.exec(f'setpriv --reuid 65534 --regid 65534 --clear-groups python3 -c "{code}" &')
    while True:  # one that has just begun to listen is found before its process is
        found = served.pulse(parts=["processes", "files", "sockets"])
        if any(socket.owners for socket in found.listening(8125)):
            break
    (socket,) = found.listening(8125)
    process = found.process(socket.owners[0].pid)
    assert process is not None
    assert (process.uid, process.user) == (65534, "nobody")
    assert [file.pid for file in found.opened("/tmp/theirs")] == [process.pid]
    assert process.pid not in found.unseen
    served.exec(f"kill {process.pid}")


def test_one_file_and_one_process(served: Session, shared_cli: Any) -> None:
    """The processes that have a file open, and everything about one process; with exit codes for scripts."""
    done = shared_cli("pulse", "shared", "--file", "/tmp/kept", "--json")
    (opened,) = done.json["opened"]
    assert (done.code, opened["offset"], opened["locks"][0]["mode"]) == (0, 100, "write")
    about = shared_cli("pulse", "shared", "--pid", str(opened["pid"]))
    assert about.code == 0
    assert "/tmp/kept · rw at 100 of 100, write lock (posix)" in about.out
    assert shared_cli("pulse", "shared", "--file", "/etc/passwd").code == 1
    missing = shared_cli("pulse", "shared", "--pid", "4000000")
    assert (missing.code, missing.out) == (1, "process 4000000: there is no such process\n")
    assert shared_cli("pulse", "shared", "--pid", "1", "--port", "1").code == 1


def test_bytes_written_since_the_image(served: Session) -> None:
    """Counts, bytes, and the largest files."""
    served.exec("head -c 3000000 /dev/urandom > /srv/large")
    disk = served.pulse(parts=["limits"], disk=True).disk
    assert disk is not None
    assert (disk.top[0].path, disk.top[0].kind, disk.top[0].bytes) == ("/srv/large", "added", 3_000_000)
    assert disk.bytes >= 3_000_000


def test_watching_ends_on_request(served: Session, shared_cli: Any) -> None:
    """One line of JSON for each sample, until it is interrupted, which is not an error."""
    process = shared_cli.start(
        "pulse", "shared", "--watch", "--json", "--no-screen", "--interval", "0.2", stdout=subprocess.PIPE
    )
    first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    looks = [first, second, *map(json.loads, rest.splitlines())]
    assert sorted({look["at"] for look in looks}) == [look["at"] for look in looks]


def test_watching_restores_the_screen(served: Session, shared_cli: Any) -> None:
    """On a terminal it uses the alternate screen and then restores the first one."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "pulse", "shared", "--watch", "--interval", "0.2"],
        env=shared_cli.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while b"kernel main" not in seen:
        seen += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while data := os.read(ours, 65536):
            seen += data
    except OSError:
        pass  # the other side is closed
    os.close(ours)
    assert process.wait(60) == 0
    assert seen.startswith(b"\x1b[?1049h")
    assert seen.endswith(b"\x1b[?1049l")


def test_a_restored_session_has_the_same_pulse(hf: Holdfast) -> None:
    """Processes, locks, deleted files, ports, names and their origins are there after a restore."""
    session = hf.new("before")
    serve(session, 8123)
    hold(session)
    restored = session.snapshot("moment").restore("after")
    session.remove()
    port = restored.port(8123)
    (listener,) = port.listeners
    assert (port.answers, listener.http_status) == (True, 200)
    assert listener.process is not None
    assert listener.process.origin is not None
    assert listener.process.origin.command.startswith("python3 -m http.server 8123")
    found = restored.pulse()
    (kept,) = found.opened("/tmp/kept")
    assert (kept.offset, kept.locks[0].mode) == (100, "write")
    (gone,) = [file for file in found.files if file.deleted and file.size == 3]
    assert gone.pid == kept.pid
    (kernel,) = found.kernels
    assert kernel.variables is not None
    assert "table" in {row.name for row in kernel.variables.rows}
    assert (found.lineage.generation, found.lineage.parent_snapshot) == (1, hf.snapshot("moment").id)
    restored.exec("echo new > /srv/new")
    disk = restored.pulse(parts=["limits"], since="moment").disk
    assert disk is not None
    assert ("/srv/new", "added", 4) in [(each.path, each.kind, each.bytes) for each in disk.top]


def test_a_session_that_is_not_running_says_so(hf: Holdfast, cli: Any) -> None:
    """For a suspended or dead one the store's knowledge, in one line, and exit code 1."""
    session = hf.new("resting")
    session.suspend()
    done = cli("pulse", "resting")
    assert done.code == 1
    assert done.out.startswith("resting is suspended")
    assert done.out.count("\n") == 1
    told = cli("pulse", "resting", "--json").json
    assert (told["state"], told["lineage"]["name"]) == ("suspended", "resting")
    with pytest.raises(SessionError):
        session.pulse()
    session.resume()
    assert session.row.container_id is not None
    hf.engine.client.api.kill(session.row.container_id)
    done = cli("pulse", "resting")
    assert (done.code, done.out.startswith("resting is dead")) == (1, True)
