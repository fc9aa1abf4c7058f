"""The forecast before a capture is true: obstacles are refused by name; without them, it succeeds."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import polling
from holdfast.engine import networks
from holdfast.errors import InvalidArgument, LiveUnsupported
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

# Holds the obstacles, and names each descriptor; on a signal it asks its peer outside.
HOLDER = r"""
import ctypes, json, os, signal, socket, sys, time
os.chdir("/srv")
child = os.fork()
if child == 0:
    while True:
        time.sleep(1000)
ctypes.CDLL(None).ptrace(0x4206, child, 0, 0)  # PTRACE_SEIZE
outside = socket.socket(socket.AF_UNIX)
outside.connect("/mnt/outside/socket")
deleted = os.open("deleted", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(deleted, 0, 257 << 20)
os.unlink("deleted")
network = socket.create_connection((sys.argv[1], int(sys.argv[2])))

def ask(*_):
    try:
        outside.sendall(b"?")
        answer = outside.recv(10).decode()
    except OSError as error:
        answer = type(error).__name__
    with open("answer.new", "w") as file:
        json.dump({"answer": answer, "size": os.fstat(deleted).st_size}, file)
    os.rename("answer.new", "answer")

signal.signal(signal.SIGUSR1, ask)
facts = {"holder": os.getpid(), "traced": child, "unix": outside.fileno(), "deleted": deleted,
         "network": network.fileno()}
with open("facts.new", "w") as file:
    json.dump(facts, file)
os.rename("facts.new", "facts")
while True:
    signal.pause()
"""


class Outside:
    """A unix socket and a TCP socket of the host; a sender to the first gets an answer."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "socket"))
        self.unix.listen()
        self.tcp = socket.create_server(("0.0.0.0", 0))
        self.port: int = self.tcp.getsockname()[1]
        self._kept: list[socket.socket] = []
        for one in (self.unix, self.tcp):
            threading.Thread(target=self._accept, args=(one,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._kept.append(connection)
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            while connection.recv(10):
                connection.sendall(b"answered")
        except OSError:
            return

    def close(self) -> None:
        for one in (self.unix, self.tcp):
            one.shutdown(socket.SHUT_RDWR)
        for one in (self.unix, self.tcp, *self._kept):
            one.close()


@dataclass
class Held:
    """A session in which a program holds obstacles; `facts` are its pids and descriptors."""

    hf: Holdfast
    session: Session
    facts: dict[str, int]

    def names(self) -> list[str]:
        """Return the names of all obstacles, as `force_drop` takes them."""
        holder = self.facts["holder"]
        return [
            f"pid:{self.facts['traced']}",
            f"fd:{holder}/{self.facts['unix']}",
            f"fd:{holder}/{self.facts['deleted']}",
        ]


def gateway(hf: Holdfast) -> str:
    """The host, as sessions see it."""
    network = hf.engine.client.api.inspect_network(networks.ensure(hf.engine))
    return str(network["IPAM"]["Config"][0]["Gateway"])


@pytest.fixture(scope="module")
def held(shared_hf: Holdfast, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    outside = Outside(tmp_path_factory.mktemp("outside") / "mounted")
    host = gateway(shared_hf)
    session = shared_hf.new(
        "held", mounts=[f"{outside.folder}:/mnt/outside"], allow=[f"{host}:{outside.port}"]
    )
    session.exec(f"cat > /srv/holder.py <<'END'\n{HOLDER}\nEND", timeout=60)
    started = session.exec(
        f"python3 /srv/holder.py {host} {outside.port} </dev/null >/srv/log 2>&1 & "
        "until [ -e /srv/facts ]; do kill -0 $! || break; sleep 0.05; done; cat /srv/log",
        timeout=120,
    )
    facts = session.cell("import json; print(open('/srv/facts').read())", timeout=60).stdout
    assert facts, started.text
    yield Held(shared_hf, session, json.loads(facts))
    outside.close()


def runs(session: Session, pid: int) -> bool:
    """Check whether a process exists and is not a zombie that its tracer has not collected."""
    return session.exec(f"grep -q '^State:.[^ZX]' /proc/{pid}/status", timeout=60).ok


def answer(session: Session, held: Held) -> dict[str, Any]:
    """Return the answer the program in `session` gets when it asks outside."""
    done = session.exec(
        f"rm -f /srv/answer; kill -USR1 {held.facts['holder']}; "
        "until [ -e /srv/answer ]; do sleep 0.05; done; cat /srv/answer",
        timeout=120,
    )
    found: dict[str, Any] = json.loads(done.text.splitlines()[-1])
    return found


def test_obstacles_are_reported_by_name(held: Held) -> None:
    """Process, descriptor, kind, reason and advice; and nothing else is reported as an obstacle."""
    report = held.session.check()

    holder, facts = held.facts["holder"], held.facts
    assert {(one.kind, one.name) for one in report.blocks} == {
        ("traced", f"pid:{facts['traced']}"),
        ("unix_outside", f"fd:{holder}/{facts['unix']}"),
        ("deleted_file_large", f"fd:{holder}/{facts['deleted']}"),
    }
    assert all(one.reason and one.advice and "holder.py" in one.command for one in report.blocks)
    assert [(one.kind, one.pid, one.fd) for one in report.resets if not one.own] == [
        ("connection_outside", holder, facts["network"])
    ]
    told = {(one.pid, one.kind) for one in report.survives}
    assert (holder, "process") in told
    assert (holder, "device") in told  # its input
    assert report.memory_bytes > 0
    assert report.file_bytes >= 257 << 20
    assert report.free_bytes > 0
    assert report.whole


def test_a_capture_is_refused_and_the_parent_is_untouched(held: Held) -> None:
    """One line names the first and counts the others; all are on the error; nothing was made or ended."""
    with pytest.raises(LiveUnsupported, match=r"holder\.py.*\(pid \d+.*, and 2 more") as refused:
        held.session.snapshot()

    assert {one["drop"] for one in refused.value.findings} == set(held.names())
    assert "--force-drop" in refused.value.hint
    assert held.hf.snapshots() == []
    assert not held.hf.store.operations.open()
    assert answer(held.session, held) == {"answer": "answered", "size": 257 << 20}
    assert runs(held.session, held.facts["traced"])


@pytest.mark.parametrize("name", ["pid:1", "fd:999999/3", "pid:x", "fd:12", "everything"])
def test_only_obstacles_can_be_dropped(held: Held, name: str) -> None:
    """Another name is refused in one line, before anything is done."""
    with pytest.raises(InvalidArgument, match="cannot drop"):
        held.session.snapshot(force_drop=[*held.names(), name])

    assert runs(held.session, held.facts["traced"])


def test_only_named_obstacles_are_dropped(held: Held) -> None:
    """Two of three named: the third is refused, and no process is ended."""
    with pytest.raises(LiveUnsupported) as refused:
        held.session.snapshot(force_drop=held.names()[:2])

    assert [one["drop"] for one in refused.value.findings] == held.names()[2:]
    assert runs(held.session, held.facts["traced"])


def test_the_exit_code_reports_the_result(held: Held, shared_cli: Callable[..., Any]) -> None:
    """3 with obstacles, 0 without; errors also have the findings."""
    blocked = shared_cli("snapshot", "held", "--check")
    as_json = shared_cli("snapshot", "held", "--check", "--json")
    refused = shared_cli("snapshot", "held", "--json")
    free = shared_cli("snapshot", "shared", "--check")

    assert (blocked.code, as_json.code, refused.code, free.code) == (3, 3, 1, 0)
    assert "traced by" in blocked.out
    assert "--force-drop" in blocked.out
    assert as_json.json["blocks"] == 3
    assert {one["drop"] for one in as_json.json["findings"] if one["verdict"] == "blocks"} == set(
        held.names()
    )
    assert {one["drop"] for one in refused.error["findings"]} == set(held.names())
    assert "nothing is in the way" in free.out


def test_a_fork_lives_without_the_dropped_obstacles(held: Held) -> None:
    """The process is ended; the descriptors are closed in the copy, and the parent keeps its own."""
    taken = held.session.snapshot("without", force_drop=held.names())
    assert taken.row.details["dropped"] == held.names()
    fork = taken.restore("lives")

    assert not runs(held.session, held.facts["traced"])
    assert answer(held.session, held) == {"answer": "answered", "size": 257 << 20}
    copied = answer(fork, held)
    assert copied["answer"] != "answered"
    assert copied["size"] == 0
    fork.remove()
    taken.remove()


# Starts short children, holds a pidfd of each, and counts them.
SHORT_CHILDREN = r"""
import os
while True:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "0.02"], os.environ)
    held = os.pidfd_open(pid)
    os.waitpid(pid, 0)
    os.close(held)
"""


def test_pidfds_of_short_children_prevent_no_capture(hf: Holdfast) -> None:
    """As Go and asyncio hold them: a child that began while the session was looked at is not outside."""
    session = hf.new("work")
    session.exec(f"cat > /srv/short.py <<'END'\n{SHORT_CHILDREN}\nEND")
    session.exec("for each in 1 2 3 4 5 6 7 8; do python3 /srv/short.py & done", timeout=60)
    seen = [one for _ in range(25) for one in session.check().resources if "pidfd" in one.kind]
    assert seen, "none was looked at"
    assert [one for one in seen if one.kind != "pidfd"] == []
    session.snapshot("busy")


BUSY = """
import os, socket, sys, threading
os.chdir("/srv")
def answer(one):
    with one:
        one.recv(100)
        one.sendall(b"answer")
server = socket.socket(socket.AF_UNIX)
server.bind("busy")
server.listen(64)
for number in range(8):
    if os.fork() == 0:
        server.close()
        count = 0
        while True:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("busy")
                client.sendall(b"request")
                if client.recv(100) != b"answer":
                    open("wrong", "w").close()
            count += 1
            if count % 50 == 0:
                open(f"count-{number}", "w").write("1" * (count // 50))
while True:
    threading.Thread(target=answer, args=(server.accept()[0],)).start()
"""


@pytest.mark.thorough
def test_a_busy_unix_server_prevents_no_capture(hf: Holdfast) -> None:
    """There is always a request that waits, never the same one: an instant without one is looked for."""
    session = hf.new("busy")
    session.exec(f"(python3 -c '{BUSY}' > /srv/log 2>&1 &)")

    def served(one: Session) -> int:
        return len(one.exec("cat /srv/count-* 2>/dev/null").text)

    def goes_on(one: Session) -> None:
        before = served(one)
        assert polling.until(lambda: served(one) > before + 8, 120, 0.2), one.exec("cat /srv/log").text
        assert not one.exec("[ -e /srv/wrong ]").ok

    goes_on(session)
    taken, refused = [], []
    for _ in range(4):
        try:
            taken.append(session.snapshot())
        except LiveUnsupported as error:  # a machine may be too busy for such an instant
            refused.append(str(error))
    assert len(taken) >= 2, refused
    assert all("at no instant" in one and "python3" in one for one in refused), refused
    goes_on(session)
    goes_on(taken[-1].restore("busy-copy"))
