"""The pause around a capture, with a real supervisor."""

import contextlib
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest


def prepare(guest: Guest) -> dict[str, Any]:
    """Ask for the pause, and wait until the supervisor has closed the connection."""
    with guest.call("prepare") as connection:
        head = connection.until("prepared").head
        assert connection.next() is None
    return head


def wake(guest: Guest, **told: Any) -> None:
    """Write the host's notice immediately, as the host does."""
    leave_word(guest, **told)
    guest.wait_for_socket()


def leave_word(guest: Guest, **told: Any) -> None:
    """Write the notice for a supervisor that is possibly not running yet."""
    path = guest.run / "wake.new"
    path.write_text(json.dumps(told))
    path.rename(guest.run / "wake.json")


def open_files(pid: int) -> list[str]:
    """Return the open files of a process. A descriptor that is closed during the listing is not open."""
    links = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(descriptor.readlink()))
    return links


def outside_sockets(pid: int) -> int:
    """Count the process's connections that are bound to, or connected to, a path in the run folder."""
    inodes = set()
    for link in open_files(pid):
        if match := re.match(r"socket:\[(\d+)\]", link):
            inodes.add(match[1])
    table = Path(f"/proc/{pid}/net/unix").read_text().splitlines()
    return sum(1 for line in table if line.split()[6] in inodes and "guest.sock" in line)


def test_nothing_is_open_to_the_outside_while_paused(guest: Guest) -> None:
    """After the answer there is neither a listening socket nor a connection nor a file of the run folder."""
    guest.exec("true")
    reader = guest.call("read", offset=0, follow=True)
    reader.until("output")
    head = prepare(guest)
    assert head["supervisor_pid"] == guest.process.pid
    assert not guest.socket.exists()
    assert outside_sockets(guest.process.pid) == 0
    with reader:
        while reader.next():
            pass  # its end is seen: the connection was closed
    assert not [link for link in open_files(guest.process.pid) if link.startswith(str(guest.run))]
    wake(guest, token=head["token"], event="resumed")
    assert guest.exec("echo back").output == b"back\r\n"


def test_commands_and_cells_continue(guest: Guest) -> None:
    """Running code is not disturbed, and its client joins again where it was."""
    with guest.begin("echo one; read x; echo two", id="job") as command:
        command.until_output(b"one")
        with guest.cell("print('a', flush=True); input(); print('b')", id="cell") as cell:
            cell.until("input_request")
            head = prepare(guest)
    wake(guest, token=head["token"], event="resumed")
    with guest.call("wait", id="job") as joined:
        guest.ask("send", b"\n")
        joined.until_output(b"two")
        assert joined.until("finished").head["exit_code"] == 0
    with guest.cell("", id="cell", after_seq=1) as again:
        again.until("input_request")
        guest.ask("input", b"")
        assert again.until("stream").payload == b"b\n"
        assert again.until("finished").head["status"] == "ok"


def test_a_pause_can_be_seen_from_outside(guest: Guest) -> None:
    """The host finds out, during the freeze, whether the session was still ready for it."""
    head = prepare(guest)
    assert [path.name for path in guest.run.glob("paused-*")] == [f"paused-{head['token']}"]
    wake(guest, token=head["token"], event="resumed")
    assert not list(guest.run.glob("paused-*"))


def test_no_terminal_output_is_in_flight_while_paused(guest: Guest) -> None:
    """Output is recorded before the answer, and programs that keep writing wait until the pause is over."""
    with guest.begin("seq 1000000 3000000", id="seq") as running:
        running.until_output(b"1000000\r\n")
        shell = guest.shell()["pid"]
        head = prepare(guest)
    folder = guest.folder / "state/shells/main/output"

    def size() -> int:
        return sum(path.stat().st_size for path in folder.iterdir())

    held = size()
    assert held == head["offsets"]["main"]
    writer = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0]
    while Path(f"/proc/{writer}/stat").read_text().split()[2] != "S":
        os.sched_yield()
    assert size() == held
    wake(guest, token=head["token"], event="resumed")
    with guest.call("wait", id="seq") as joined:
        lines = b"".join(frame.payload for frame in joined.frames() if frame.event == "output").split()
    assert lines == [str(number).encode() for number in range(1000000, 3000001)]


def test_no_process_is_read_while_paused(guest: Guest) -> None:
    """A supervisor captured while reading one would hold files that a copy is not given."""
    supervisor = guest.process.pid
    with guest.begin("echo up; sleep 1000", id="job") as running:
        running.until_output(b"up\r\n")
        head = prepare(guest)
    # The first tick finds that the connection is closed; until then it may keep reading.
    assert any(reads_nothing(supervisor, ticks=150) for _ in range(5))
    assert not guest.socket.exists()
    wake(guest, token=head["token"], event="resumed")
    assert guest.ask("signal", signal="INT")


def reads_nothing(process: int, ticks: int) -> bool:
    """Return whether the first thread of a process reads no file during this many waits."""
    reads = counted(process, "io", "syscr")
    enough = counted(process, "status", "voluntary_ctxt_switches") + ticks
    while counted(process, "status", "voluntary_ctxt_switches") < enough:
        os.sched_yield()
    return counted(process, "io", "syscr") == reads


def counted(process: int, file: str, name: str) -> int:
    """Return a counter of the kernel for the first thread of a process, see proc(5)."""
    text = Path(f"/proc/{process}/task/{process}/{file}").read_text()
    found = re.search(rf"^{name}:\s+(\d+)$", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_a_restored_session_has_its_new_name(guest: Guest) -> None:
    """The host gives a copy its identity."""
    head = prepare(guest)
    assert head["generation"] == 0
    wake(guest, token=head["token"], event="restored", session="b" * 12, name="fork-1", generation=1)
    hello = guest.ask("hello")[0].head
    assert (hello["session"], hello["name"], hello["generation"]) == ("b" * 12, "fork-1", 1)
    assert not (guest.run / "wake.json").exists()


def test_the_time_before_a_restore_is_not_a_commands(guest: Guest) -> None:
    """The notice is there before the copy runs: its first look ends the pause, and must see the jump."""
    gate = guest.folder / "gate"
    waiting = f"echo up; until [ -e {gate} ]; do sleep 0.1; done"
    with guest.begin(waiting, id="job", timeout=8) as command:
        command.until_output(b"up")
        head = prepare(guest)
    assert any(reads_nothing(guest.process.pid, ticks=150) for _ in range(5))
    guest.process.send_signal(signal.SIGSTOP)
    leave_word(guest, token=head["token"], event="restored", session="b" * 12, name="copy", generation=1)
    time.sleep(8)
    guest.process.send_signal(signal.SIGCONT)
    guest.wait_for_socket()
    guest.ask("hello")  # its timers have run now
    gate.touch()
    with guest.call("wait", id="job") as joined:
        assert not joined.until("finished").head["timed_out"]


def test_only_the_right_token_ends_the_pause(guest: Guest) -> None:
    """An old or half written file does not wake it."""
    for junk in ("{", "[]", '{"token": "other", "event": "resumed"}'):
        head = prepare(guest)
        (guest.run / "wake.json").write_text(junk)
        assert not guest.socket.exists()
        wake(guest, token=head["token"], event="resumed")
        assert guest.ask("hello")[0].head["name"] == ""


def test_a_forgotten_pause_times_out(guest: Guest) -> None:
    """If its controller is dead the session listens again, with the identity it finds."""
    prepare(guest)
    (guest.run / "session.json").write_text('{"session": "aaaaaaaaaaaa", "name": "found"}')
    guest.wait_for_socket()
    assert guest.ask("hello")[0].head["name"] == "found"
    assert not list(guest.run.glob("paused-*"))


def woken(guest: Guest) -> list[str]:
    """Return the outcomes of captures that are recorded."""
    frames = guest.ask("journal", kinds=["woken"])[:-1]
    return [json.loads(frame.payload)["event"] for frame in frames]


def later(guest: Guest) -> str:
    """Pause it and let it continue before the outcome of the capture is known; return the token."""
    token = str(prepare(guest)["token"])
    wake(guest, token=token, event="later")
    return token


def test_the_outcome_of_a_capture_can_come_later(guest: Guest) -> None:
    """The session runs in the meantime; each capture has one outcome, that of its last attempt."""
    before = len(woken(guest))
    for event in ("resumed", "aborted"):
        token = later(guest)
        known = woken(guest)
        leave_word(guest, token="0" * 32, event="resumed", snapshot="b" * 12)
        assert guest.exec("echo here").output == b"here\r\n"
        assert woken(guest) == known
        leave_word(guest, token=token, event=event, snapshot="a" * 12)
        assert woken(guest) == [*known, event]
        assert not (guest.run / "wake.json").exists()
    token = later(guest)
    leave_word(guest, token=token, event="again")
    later(guest)
    guest.pause_and_wake()  # another capture begins: that one has no snapshot
    assert woken(guest)[before:] == ["resumed", "aborted", "aborted", "resumed"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_stray_signals_do_not_end_the_supervisor(guest: Guest, number: signal.Signals) -> None:
    """Only SIGTERM ends it."""
    guest.process.send_signal(number)
    assert guest.exec("trap -p; echo here").output == b"here\r\n"
    assert guest.process.poll() is None


def test_sigterm_ends_everything(guest: Guest) -> None:
    """The supervisor goes with its shell and kernel, and leaves no socket."""
    guest.run_cell("1")
    hello = guest.ask("hello")[0].head
    guest.process.terminate()
    assert guest.process.wait(30) == 0
    assert not guest.socket.exists()
    for pid in (hello["shells"][0]["pid"], hello["kernels"][0]["pid"]):
        status = Path(f"/proc/{pid}/status")
        while status.exists() and "State:\tZ" not in status.read_text():
            pass
