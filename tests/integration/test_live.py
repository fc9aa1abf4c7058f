"""A live snapshot restores the whole state; the captured session does not notice; forks are independent.

One session full of state is captured once and restored twice; each test checks one kind of state in all
three, and changes only values that no other test reads.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.engine import networks
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.snapshots import service

SHELL = r"""
cd /srv
export EXPORTED=kept
local_only=kept
greet() { echo "hello $1"; }
alias twice='echo two'
sleep 100000 &
useradd --create-home bob
su bob -c 'sleep 100002 &'
exec 8<>/srv/gone; echo "nameless" >&8; rm /srv/gone
echo shared > /dev/shm/kept
echo index > /srv/page
python3 -m http.server --bind 127.0.0.1 8000 --directory /srv >/dev/null 2>&1 &
until curl -s http://127.0.0.1:8000/page >/dev/null; do :; done
"""

KERNEL = """
import hashlib, os, socket, threading, time
block = os.urandom(20 << 20)
digest = hashlib.sha256(block).hexdigest()
count = 0
def run():
    global count
    while True:
        count += 1
        time.sleep(0.001)
threading.Thread(target=run, daemon=True).start()
server = socket.create_server(("127.0.0.1", 0))
inner = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
inner.sendall(b"in flight")
own = socket.create_server((socket.gethostbyname(socket.gethostname()), 8123))
"""

# Before every step it compares what it remembers with what its files say: a snapshot whose parts are of
# different moments is found out by the restored process itself.
WRITER = """
import os, threading
file, shared = (os.open(name, os.O_RDWR | os.O_CREAT) for name in ("/srv/count", "/dev/shm/count"))
n, torn = 0, 0
os.pwrite(file, b"%020d" % n, 0); os.pwrite(shared, b"%020d" % n, 0)
def run():
    global n, torn
    while True:
        torn += any(int(os.pread(fd, 20, 0)) != n for fd in (file, shared))
        n += 1
        os.pwrite(file, b"%020d" % n, 0)
        os.pwrite(shared, b"%020d" % n, 0)
threading.Thread(target=run, daemon=True).start()
"""


@dataclass
class Three:
    """The captured session and two restored ones, with the outer end of the captured one's connection."""

    snapshot: Snapshot
    parent: Session
    first: Session
    second: Session
    outside: socket.socket

    @property
    def all(self) -> tuple[Session, Session, Session]:
        return self.parent, self.first, self.second

    @property
    def restored(self) -> tuple[Session, Session]:
        return self.first, self.second


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    home = Home(tmp_path_factory.mktemp("live") / "home").create()
    with Holdfast(home) as controller, socket.create_server(("0.0.0.0", 0)) as listener:
        try:
            network = controller.engine.client.api.inspect_network(networks.ensure(controller.engine))
            gateway, port = network["IPAM"]["Config"][0]["Gateway"], listener.getsockname()[1]
            parent = controller.new("parent", allow=[f"{gateway}:{port}"])
            done = parent.exec(SHELL, timeout=60)
            assert done.exit_code == 0, done.text
            assert parent.cell(KERNEL, timeout=60).status == "ok"
            listener.settimeout(30)
            reach = f"outer = socket.create_connection(({gateway!r}, {port}), timeout=30)"
            assert parent.cell(reach, timeout=60).status == "ok"
            outside, _ = listener.accept()
            with outside:
                outside.settimeout(30)
                snapshot = parent.snapshot("moment")
                first, second = snapshot.fork(2, "fork")
                yield Three(snapshot, parent, first, second, outside)
        finally:
            for session in controller.sessions():
                session.remove()
            for taken in controller.snapshots():
                taken.remove()
            service.stop(controller.engine, home)


def said(session: Session, command: str) -> str:
    return session.exec(command, timeout=60).text.strip()


def printed(session: Session, code: str) -> str:
    result = session.cell(code, timeout=60)
    assert result.status == "ok", result
    return result.stdout.strip()


def test_the_shell_is_unchanged(three: Three) -> None:
    """Directory, variables, exported or not, functions and aliases."""
    for session in three.all:
        assert said(session, 'echo "$PWD $EXPORTED $local_only"; greet you; twice') == (
            "/srv kept kept\nhello you\ntwo"
        )


def test_history_is_there(three: Three) -> None:
    """Commands run before the capture can be recalled."""
    for session in three.all:
        assert "export EXPORTED=kept" in said(session, "history")


def test_jobs_continue(three: Three) -> None:
    """The shell knows its jobs, and they run."""
    for session in three.all:
        assert "sleep 100000" in said(session, "jobs -r")


def test_processes_of_other_users_come_back(three: Three) -> None:
    """Also processes whose session leader has ended: they belong to the keeper, as before."""
    for session in three.all:
        assert said(session, "ps -C sleep -o user=,args= | grep 100002").split() == ["bob", "sleep", "100002"]
        parent = said(session, "ps -o ppid= -p $(pgrep -f '^sleep 100002')").strip()
        assert said(session, f"cat /proc/{parent}/cmdline | tr '\\0' ' '").strip() == "keeper"


def test_memory_is_equal(three: Three) -> None:
    """Every byte of the kernel's block."""
    for session in three.all:
        assert printed(session, "print(hashlib.sha256(block).hexdigest() == digest)") == "True"


def test_threads_continue(three: Three) -> None:
    """The counter of a thread still counts."""
    for session in three.all:
        code = "before = count\nwhile count < before + 5: time.sleep(0.001)\nprint(count > before)"
        assert printed(session, code) == "True"


def test_a_server_keeps_answering(three: Three) -> None:
    """A process that listened before the capture listens after it."""
    for session in three.all:
        assert said(session, "curl -s http://127.0.0.1:8000/page") == "index"


def test_files_without_a_name_survive(three: Three) -> None:
    """An open file that was deleted, with its content."""
    for session in three.all:
        assert said(session, "cat /proc/$$/fd/8") == "nameless"


def test_shared_memory_survives(three: Three) -> None:
    """/dev/shm is neither in the image nor in the processes' memory."""
    for session in three.all:
        assert said(session, "cat /dev/shm/kept") == "shared"


def test_connections_within_the_session_survive(three: Three) -> None:
    """Data in flight arrives, and the connection can be used in both directions."""
    for session in three.all:
        code = (
            "first = accepted.recv(99)\n"
            "inner.sendall(b'after'); second = accepted.recv(99)\n"
            "accepted.sendall(b'back'); print(first, second, inner.recv(99))"
        )
        assert printed(session, code) == "b'in flight' b'after' b'back'"


def test_connections_to_outside_stay_with_the_parent(three: Three) -> None:
    """The restored copies read end-of-file and cannot write; the parent's connection is untouched."""
    for session in three.restored:
        code = (
            "outer.settimeout(60); print(outer.recv(99))\n"
            "try: outer.sendall(b'x'); print('sent')\n"
            "except OSError as error: print(type(error).__name__)"
        )
        assert printed(session, code) == "b''\nBrokenPipeError"
    assert printed(three.parent, "outer.sendall(b'from the parent')") == ""
    assert three.outside.recv(99) == b"from the parent"
    three.outside.sendall(b"to the parent")
    assert printed(three.parent, "print(outer.recv(99))") == "b'to the parent'"


def test_listeners_move_to_the_new_address(three: Three) -> None:
    """A socket bound to the container's own address is bound to the new one."""
    for session in three.all:
        code = (
            "mine = socket.gethostbyname(socket.gethostname())\n"
            "reached = socket.create_connection((mine, 8123), timeout=60)\n"
            "print(own.getsockname()[0] == mine); reached.close()"
        )
        assert printed(session, code) == "True"


def test_sessions_have_names_of_their_own(three: Three) -> None:
    """Host name and address are not the parent's."""
    assert [said(session, "hostname") for session in three.all] == ["parent", "fork-1", "fork-2"]
    assert len({said(session, "hostname -I") for session in three.all}) == 3


def test_concurrent_captures_do_not_disturb_each_other(three: Three) -> None:
    """Files, variables and kernels are separate from the capture on."""
    for session in three.all:
        said(session, f"echo {session.name} > /srv/mine; mine={session.name}")
        session.cell(f"mine = {session.name!r}")
    for session in three.all:
        assert said(session, 'cat /srv/mine; echo "$mine"') == f"{session.name}\n{session.name}"
        assert printed(session, "print(mine)") == session.name


def test_limits_hold_after_a_restore(three: Three) -> None:
    """Restored processes are in the new container's cgroups, not in the checkpointer's."""
    for session in three.all:
        pid = said(session, "pgrep -f '^sleep 100000'")
        different = said(session, f"diff /proc/{pid}/cgroup /proc/1/cgroup && echo same")
        assert different == "same"


def test_a_restored_session_can_be_captured_again(three: Three) -> None:
    """Three more generations, each from the previous one."""
    session = three.second
    for number in range(3):
        session = session.snapshot().restore(f"generation-{number}")
    assert said(session, "greet again; jobs -r | grep -c 'sleep 100000'") == "hello again\n1"
    assert printed(session, "print(hashlib.sha256(block).hexdigest() == digest)") == "True"
    assert said(session, "ps -C sleep -o user=,args= | grep 100002").split() == ["bob", "sleep", "100002"]


def test_the_lineage_is_kept(three: Three) -> None:
    """A snapshot knows its session, a restored session its snapshot."""
    assert three.snapshot.session_id == three.parent.id
    assert {session.parent_snapshot_id for session in three.restored} == {three.snapshot.id}


def test_files_and_memory_are_of_one_instant(hf: Holdfast) -> None:
    """A counter written as fast as possible: the process remembers what its files say."""
    session = hf.new("torn")
    assert session.cell(WRITER, timeout=60).status == "ok"
    for number in range(3):
        restored = session.snapshot().restore(f"check-{number}")
        code = "import time\nbefore = n\nwhile n < before + 100: time.sleep(0.001)\nprint(torn)"
        assert printed(restored, code) == "0"
        restored.remove()
    assert printed(session, "print(torn)") == "0"


def test_a_stopped_job_stays_stopped(hf: Holdfast) -> None:
    """Until it is continued, in the captured session and in the restored one."""
    session = hf.new("stopped")
    # Stopped as the program it is, not as the shell that is about to become it.
    session.exec(
        'sleep 100001 & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; kill -STOP $!', timeout=30
    )
    for each in (session.snapshot().restore("restored"), session):
        assert "sleep 100001" in said(each, "jobs -s")
        assert "sleep 100001" in said(each, "bg >/dev/null; jobs -r")


def test_a_command_continues_across_captures(hf: Holdfast) -> None:
    """A caller that waits for a command gets all of its output once, though its session is captured in
    between.
    """
    session = hf.new("busy")
    taken: list[Snapshot] = []
    commands: set[str | None] = set()
    seen = 0

    def capture(data: bytes) -> None:
        nonlocal seen
        seen += len(data)
        if seen > 100_000 * (len(taken) + 1) and len(taken) < 3:
            commands.add(session.shell().command_id)
            taken.append(session.snapshot())

    result = session.exec(
        "for i in $(seq 500); do seq 1 300; done; echo end of it", timeout=1200, on_bytes=capture
    )

    expected = "".join(f"{number}\n" for number in range(1, 301)) * 500 + "end of it\n"
    assert len(taken) == 3
    assert result.exit_code == 0
    assert seen == len(expected)
    command = next(found for found in commands if found is not None)
    for number, snapshot in enumerate(taken):
        pieces: list[bytes] = []
        snapshot.restore(f"later-{number}").join(command, on_bytes=pieces.append)
        assert b"".join(pieces).decode() == expected


@pytest.mark.thorough
def test_a_session_is_captured_while_its_memory_arrives(hf: Holdfast) -> None:
    """It answers before all of it is there, and anyone who asks for a snapshot then just waits."""
    session = hf.new()
    session.cell("import zlib; pages = 300_000; held = bytearray(pages << 12)")
    session.cell(
        "for at, step in enumerate((251, 241)):\n held[at::4096] = bytes(i % step for i in range(pages))"
    )
    session.cell("before = zlib.crc32(held)")
    for _ in range(10):  # on a quick machine all of it may have arrived already
        session.suspend().resume()
        found = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        serving = [pid for pid in found if _stopped(pid, session)]
        if serving:
            break
    assert serving

    with ThreadPoolExecutor(1) as pool:
        try:
            taking = pool.submit(session.snapshot)
            with pytest.raises(TimeoutError):
                taking.result(timeout=3)
        finally:
            for pid in serving:
                os.kill(pid, signal.SIGCONT)
        copy = taking.result(timeout=120).restore()

    assert copy.cell("zlib.crc32(held) == before").text == "True"


def _stopped(pid: int, session: Session) -> bool:
    """Stop a process if it serves the session's memory, and has not ended."""
    process = Path(f"/proc/{pid}")
    try:
        groups, command = (process / "cgroup").read_text(), (process / "cmdline").read_bytes()
    except OSError:
        return False
    if (session.row.container_id or "?") not in groups or b"lazy-pages" not in command:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        return True
    return False
