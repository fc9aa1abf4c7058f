"""The pulse of a real supervisor on this machine."""

import asyncio
import json
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.guest.pulse import access, descriptors, gather, sockets
from holdfast.runtime.guest.pulse.descriptors import ScanBounds
from holdfast.runtime.guest.wire.port_operations import probe_port
from holdfast.runtime.pulse.listening_ports import page_title

HOLDER = """
import fcntl, os, socket
def hold(folder):
    global keep
    kept = open(f"{folder}/kept", "w+"); kept.write("x" * 100); kept.flush()
    os.link(f"{folder}/kept", f"{folder}/other")
    fcntl.lockf(kept, fcntl.LOCK_EX, 10, 5)
    gone = open(f"{folder}/gone", "w"); gone.write("abc"); gone.flush(); os.unlink(f"{folder}/gone")
    tcp = socket.create_server(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX); unix.bind(f"{folder}/unix.sock"); unix.listen()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.bind(("127.0.0.1", 0))
    keep = kept, gone, tcp, unix, datagrams
    print(tcp.getsockname()[1], datagrams.getsockname()[1])
"""


def pulse(guest: Guest, **args: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(guest.ask("pulse", **args)[-1].payload)
    return found


def sleepers(guest: Guest, command: str, count: int) -> list[dict[str, Any]]:
    """Wait until that many processes run a command: each was a copy of the shell at first."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        rows = pulse(guest, parts=["processes"])["processes"]["rows"]
        found = [row for row in rows if row["command"] == command and row["state"] == "sleeping"]
    return found


@pytest.fixture
def held(guest: Guest) -> tuple[int, dict[str, int]]:
    """A kernel that holds a lock, files and sockets: its pid, and its ports."""
    frames = guest.run_cell(f"{HOLDER}\nhold({str(guest.folder)!r})")
    tcp, udp = b"".join(frame.payload for frame in frames if frame.event == "stream").split()
    return guest.ask("hello")[0].head["kernels"][0]["pid"], {"tcp": int(tcp), "udp": int(udp)}


def test_processes_are_reported_with_their_command(guest: Guest) -> None:
    """A job is there with its parent, user, command, terminal and the command it belongs to."""
    command = f"sleep 301.{os.getpid()}"
    guest.exec(f"{command} &", id="begins-it")
    shell = guest.shell()["pid"]
    (job,) = sleepers(guest, command, 1)
    assert (job["ppid"], job["uid"], job["state"]) == (shell, os.getuid(), "sleeping")
    assert job["terminal"].startswith("pts/")
    assert (job["origin"]["kind"], job["origin"]["id"]) == ("command", "begins-it")
    assert job["age"] < 3600
    guest.exec("kill %1")


def test_files_locks_and_sockets_are_reported_with_their_owner(
    guest: Guest, held: tuple[int, dict[str, int]]
) -> None:
    """Offset, lock, deleted mark; listening sockets of all kinds, each with the process that has it."""
    pid, ports = held
    found = pulse(guest)
    files = {row["path"]: row for row in found["files"]["rows"] if row["pid"] == pid}
    kept, gone = files[f"{guest.folder}/kept"], files[f"{guest.folder}/gone"]
    assert (kept["offset"], kept["size"], kept["access"], kept["deleted"]) == (100, 100, "rw", False)
    (lock,) = kept["locks"]
    assert (lock["kind"], lock["mode"], lock["start"], lock["end"]) == ("posix", "write", 5, 14)
    assert (gone["deleted"], gone["size"]) == (True, 3)
    sockets = found["sockets"]["rows"]
    for protocol, state in (("tcp", "listening"), ("udp", "bound")):
        (one,) = [
            row
            for row in sockets
            if row["protocol"] == protocol and row["local_port"] == ports[protocol] and row["state"] == state
        ]
        assert [owner["pid"] for owner in one["owners"]] == [pid]
    (unix,) = [row for row in sockets if row.get("path") == f"{guest.folder}/unix.sock"]
    assert (unix["state"], unix["owners"][0]["pid"]) == ("listening", pid)


def test_an_open_file_is_found_by_any_of_its_names(guest: Guest, held: tuple[int, dict[str, int]]) -> None:
    """A file is found by another link to it, by a relative path, and by the name it lost."""
    pid, _ = held
    guest.exec(f"cd {guest.folder}")
    for path, exists in ((f"{guest.folder}/other", True), ("./kept", True), ("gone", False)):
        found = pulse(guest, parts=["files"], file=path)
        assert {row["pid"] for row in found["files"]["rows"]} == {pid}
        assert (found["file"]["status"] is not None) == exists
    nothing = pulse(guest, parts=["files"], file="never")
    assert (nothing["files"]["rows"], nothing["file"]["status"]) == ([], None)


def test_one_process_in_detail(guest: Guest, held: tuple[int, dict[str, int]]) -> None:
    """The detail of one process includes its memory, its limits and all its descriptors."""
    pid, _ = held
    found = pulse(guest, pid=pid)
    assert found["detail"]["memory"]["proportional"] > 0
    assert found["detail"]["cwd"]
    others = [row["kind"] for row in found["files"]["others"] if row["pid"] == pid]
    assert {"socket", "pipe"} <= set(others)
    (row,) = [row for row in found["processes"]["rows"] if row["pid"] == pid]
    assert row["descriptors"] > len(others)


def test_terminal_and_kernel(guest: Guest) -> None:
    """Modes, foreground and state of the terminal; state, count and names of the kernel."""
    guest.exec("inside=1; f() { :; }")
    guest.run_cell("number = 41")
    found = pulse(guest, parts=["terminals", "kernels", "variables"])
    (terminal,), (kernel,) = found["terminals"], found["kernels"]
    assert (terminal["rows"], terminal["cols"], terminal["shell"]) == (40, 120, "main")
    assert terminal["foreground"] == guest.shell()["pid"]
    assert terminal["observed"]["state"] == "idle"
    assert terminal["functions"] >= 1
    assert (kernel["state"], kernel["execution_count"]) == ("idle", 1)
    assert "processes" not in found
    with guest.begin("stty -echo; read -r line") as running:
        while pulse(guest, parts=["terminals"])["terminals"][0]["modes"]["echo"]:
            os.sched_yield()
        busy = pulse(guest, parts=["terminals"])["terminals"][0]
        assert busy["exec"]
        guest.ask("send", b"\n")
        running.until("finished")
    guest.exec("stty echo")


def test_hundreds_of_files_are_bounded(guest: Guest) -> None:
    """Of many files some are listed and the rest are counted; a request for files lists all."""
    guest.run_cell(f"many = [open({str(guest.folder / 'many')!r}, 'a') for _ in range(300)]")
    pid = guest.ask("hello")[0].head["kernels"][0]["pid"]

    def told(**args: Any) -> tuple[int, int]:
        found = pulse(guest, parts=["processes", "files"], **args)["files"]
        return sum(row["pid"] == pid for row in found["rows"]), found["left_out"]

    count, left_out = told()
    assert count == gather.BRIEF.files
    assert left_out >= 300 - count
    assert told(files=True)[0] >= 300


def test_many_processes_some_of_which_vanish(guest: Guest) -> None:
    """With 200 processes and others that end all the time, each scan is complete."""
    enough = guest.folder / "enough"
    command = f"sleep 300.{os.getpid()}"  # made by this test, and ends on its own if the test is killed
    guest.exec(f"for i in $(seq 200); do {command} & done 2>/dev/null")
    try:
        sleepers(guest, command, 200)
        with guest.begin(f"until [ -e {enough} ]; do /bin/true; done") as running:
            for _ in range(3):
                rows = pulse(guest, parts=["processes", "files", "sockets"])["processes"]["rows"]
                assert sum(row["command"] == command for row in rows) == 200
            enough.touch()
            running.until("finished")
    finally:
        enough.touch()
        guest.exec("kill $(jobs -p)")


def test_unknown_parts_are_refused(guest: Guest) -> None:
    """An unknown name is an error that lists the valid ones."""
    with pytest.raises(Refused, match="the parts are processes"):
        guest.ask("pulse", parts=["proceses"])
    with pytest.raises(Refused):
        guest.ask("probe", port=0)


def test_a_server_is_probed_from_inside(guest: Guest) -> None:
    """A web server answers with its status; at a port without a listener the connection is refused."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with guest.call("probe", port=port, speak=True) as call:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1000).startswith(b"HEAD / ")
                connection.sendall(b"HTTP/1.1 503 Busy\r\n\r\n")
            answer = json.loads(call.until("probed").payload)
    assert (answer["answer"], answer["http_status"]) == ("accepted", 503)
    assert json.loads(guest.ask("probe", port=port)[-1].payload) == {"answer": "refused"}


def test_one_connection_gives_status_and_page(guest: Guest) -> None:
    """The page is read to the end of its title; a server that greets first is not asked for one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with guest.call("probe", port=port, speak=True, page=True) as call:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1000).startswith(b"GET / HTTP/1.0\r\nHost: localhost:%d\r\n" % port)
                for piece in (b"HTTP/1.0 200 OK\r\n\r\n<ti", b"tle>caf\xc3\xa9</tit", b"le>"):
                    connection.sendall(piece)
                answer = json.loads(call.until("probed").payload)
        assert page_title(answer["page"].encode("latin-1")) == (200, "café")
        with guest.call("probe", port=port, speak=True, page=True) as call:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")
                answer = json.loads(call.until("probed").payload)
    assert answer == {"answer": "accepted", "first_line": "SSH-2.0-OpenSSH"}


def test_a_server_that_does_not_accept_times_out() -> None:
    """A full queue of connections is a timeout, not an error."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        found = asyncio.run(probe_port("127.0.0.1", server.getsockname()[1], speak=False, patience=0.1))
        for each in waiting:
            each.close()
    assert found == {"answer": "timeout"}


def test_other_tasks_get_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """While processes are scanned one after the other, the loop runs its other tasks."""
    monkeypatch.setattr(gather, "TURN", 0.0)
    nobody = SimpleNamespace(session="", name="", generation=0)
    lineage = SimpleNamespace(look=lambda: None, origin=lambda _: None)
    guest: Any = SimpleNamespace(lineage=lineage, identity=nobody, kernels={}, shells={})

    async def look() -> tuple[int, int]:
        turns, over = 0, False

        async def other() -> None:
            nonlocal turns
            while not over:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        found = await gather.PulseGatherer(guest).gather(frozenset({"processes"}))
        over = True
        await beside
        return turns, len(found["processes"]["rows"])

    turns, count = asyncio.run(look())
    assert turns >= count > 0


def test_an_ended_process_has_no_descriptors() -> None:
    """A process can end between two scans."""
    (table,) = descriptors.look(1 << 22, 0, 0, ScanBounds(links=10, files=10))
    assert (table.count, table.files) == (None, [])
    assert access.stat(1 << 22) is None


def test_the_tables_of_sockets_agree() -> None:
    """Netlink reports the same about a socket as /proc/net, which is used where netlink is missing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        by_netlink = sockets.tcp()
        assert by_netlink is not None
        (one,) = [row for row in by_netlink if row.local_port == port]
        (other,) = [row for row in gather.read_table("tcp") if row.local_port == port]
        assert one == other
