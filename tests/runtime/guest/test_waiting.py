"""Real programs on a real terminal: those waiting for their user are found, with their questions."""

from __future__ import annotations

import ctypes
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import PATIENCE, Connection, Guest, Refused

PYTHON = shlex.quote(sys.executable)
# From linux/ptrace.h and linux/wait.h.
_SEIZE, _INTERRUPT, _DETACH, _WALL = 0x4206, 0x4207, 17, 0x40000000

# Reads the terminal as programs with an event loop do, which have plumbing of their own in the same set.
_LOOP = """
import os, select, socket, sys, termios, tty
ours, theirs = socket.socketpair()
end, _ = os.pipe()
timer = socket.socket()
if {served}:
    timer.bind(("127.0.0.1", 0)); timer.listen()
plumbing = [ours.fileno(), end] + ([timer.fileno()] if {served} else [])
tty.setraw(0, termios.TCSANOW)
sys.stdout.write({text!r}); sys.stdout.flush()
if {how!r} == "select":
    select.select([0, *plumbing], [], [], {timeout})
elif {how!r} == "poll":
    poll = select.poll()
    for fd in (0, *plumbing): poll.register(fd, select.POLLIN)
    poll.poll({timeout} and {timeout} * 1000)
else:
    epoll = select.epoll()
    for fd in (0, *plumbing): epoll.register(fd, select.EPOLLIN)
    epoll.poll({timeout})
termios.tcsetattr(0, termios.TCSANOW, {after})
"""


def _python(code: str) -> str:
    return f"{PYTHON} -c {shlex.quote(code)}"


def _loop(how: str, *, served: bool = False, text: str = "", timeout: float | None = None) -> str:
    code = _LOOP.format(how=how, served=served, text=text, timeout=timeout, after="modes")
    code = code.replace("\ntty.setraw", "\nmodes = termios.tcgetattr(0)\ntty.setraw")
    return _python(code)


def _relayed(*argv: str) -> str:
    return _python(f"import pty; pty.spawn({list(argv)!r})")


@pytest.fixture(scope="module")
def guest(marks_library: Path) -> Iterator[Guest]:
    """One supervisor for all tests of this module: each leaves its shell at a prompt."""
    running = Guest(marks_library)
    yield running
    running.stop()


def _until(guest: Guest, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Query the shell's state until it is the expected one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        state: dict[str, Any] = guest.shell()["observed"]
        if wanted(state):
            return state
        assert time.monotonic() < deadline, state


def _end(guest: Guest, connection: Connection) -> None:
    """End a command: a program is killed, the shell itself is interrupted."""
    shell = guest.shell()
    own = shell["observed"]["pid"] == shell["pid"]
    guest.ask("signal", signal="INT" if own else "KILL")
    connection.until("finished")


@pytest.mark.parametrize(
    ("command", "detail", "prompt"),
    [
        ("read -p 'Name: ' x", "line", "Name: "),
        ("read x", "line", ""),
        ("read -s -p 'Secret: ' x", "password", "Secret: "),
        ("read -n1 -p 'Sure? ' x", "key", "Sure? "),
        ("read -e -p 'Edit: ' x", "line", "Edit: "),
        ("bash -c 'select x in one two; do break; done'", "line", "#? "),
        ("cat", "line", ""),
        ("cat | cat", "line", ""),
        ("sh", "repl", None),
        (_python("input('who? ')"), "line", "who? "),
        (_python("import getpass; getpass.getpass()"), "password", "Password: "),
        (_python("import code; code.interact('')"), "repl", ">>> "),
        (_loop("select"), "key", ""),
        (_loop("poll", text="(Pdb) "), "repl", "(Pdb) "),
        (_loop("epoll", text="Passphrase: "), "password", "Passphrase: "),
        (_loop("epoll", served=True, text="ada@far:~$ "), "repl", "ada@far:~$ "),
        (_relayed("cat"), "line", ""),
        (_relayed(sys.executable, "-c", "input('inside? ')"), "line", "inside? "),
    ],
)
def test_a_program_that_waits_is_reported_with_its_prompt(
    guest: Guest, command: str, detail: str, prompt: str | None
) -> None:
    """Its output arrives before the report that it waits."""
    with guest.begin(command) as connection:
        output = b""
        for frame in connection.frames():
            assert frame.event in ("output", "waiting"), frame
            if frame.event == "waiting":
                break
            output += frame.payload
        state = frame.head["state"]
        _end(guest, connection)

    assert (state["state"], state["detail"]) == ("waiting", detail)
    assert prompt is None or state["prompt"] == prompt
    assert output.decode().endswith(prompt or "")
    assert state["pid"] > 0
    assert state["command"]
    assert state["since"] <= time.time()


@pytest.mark.parametrize(
    "command",
    [
        "sleep 0.4",
        "sleep 0.4 | cat",
        "sleep 0.4 & wait",
        "x=0; while [ $((x += 1)) -lt 60000 ]; do :; done",
        "printf 'Continue? [y/N] '; sleep 0.4",
        _python("import subprocess; subprocess.run(['sleep', '0.4'], capture_output=True)"),
        _python("print('Password: ', end='', flush=True); import time; time.sleep(0.4)"),
        "stty -echo; printf 'Password: '; sleep 0.4; stty echo",
        _loop("epoll", served=True, text="press h for help\r\n", timeout=0.4),
        _loop("poll", served=True, text="50 % ", timeout=0.4),
        _relayed("sleep", "0.4"),
    ],
)
def test_a_program_that_does_not_wait_is_not_reported(guest: Guest, command: str) -> None:
    """Neither silence nor a text that looks like a question is taken for one."""
    done = guest.exec(command)

    assert done.exit_code in (0, 1)
    assert [frame.event for frame in done.frames if frame.event == "waiting"] == []


@pytest.mark.parametrize(
    ("command", "detail"),
    [("sleep 600", "sleep"), ("while :; do :; done", "cpu"), ("sleep 600 | cat", "sleep")],
)
def test_a_running_program_is_reported_with_how_it_runs(guest: Guest, command: str, detail: str) -> None:
    """Also which process it is."""
    with guest.begin(command) as connection:
        state = _until(guest, lambda found: (found["state"], found["detail"]) == ("running", detail))
        _end(guest, connection)

    assert state["command"] == ("bash" if detail == "cpu" else "sleep 600")


def test_a_stopped_program_is_stopped(guest: Guest) -> None:
    """Its parent waits for it, and no other process does anything."""
    with guest.begin("bash -c 'sleep 600 & kill -STOP $!; wait'") as connection:
        _until(guest, lambda found: found["state"] == "stopped")
        _end(guest, connection)


def test_a_program_held_by_a_tracer_keeps_its_state(guest: Guest) -> None:
    """A capture or a debugger holds a program briefly: that is not the stop of a job."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with guest.begin("cat") as connection:
        pid = _until(guest, lambda found: found["state"] == "waiting")["pid"]
        assert libc.ptrace(_SEIZE, pid, None, None) == 0
        try:
            assert libc.ptrace(_INTERRUPT, pid, None, None) == 0
            os.waitpid(pid, _WALL)
            assert "State:\tt" in Path(f"/proc/{pid}/status").read_text()
            held = {guest.shell()["observed"]["state"] for _ in range(500)}  # scan for the members again
        finally:
            libc.ptrace(_DETACH, pid, None, None)
        assert held == {"waiting"}
        _end(guest, connection)


def test_an_idle_shell_is_idle(guest: Guest) -> None:
    """At its prompt the shell waits for commands; that is not a question."""
    guest.exec("true")

    assert _until(guest, lambda found: found["state"] == "idle")["command"] == "bash"


def test_each_question_is_reported_once(guest: Guest) -> None:
    """Also the same one, when it is asked again."""
    with guest.begin("for i in 1 2 3; do read -p 'again? ' x; done; read -p 'last? ' x") as connection:
        asked = []
        for _ in range(4):
            asked.append(connection.until("waiting").head["state"]["prompt"])
            guest.ask("send", b"answer\n")
        rest = list(connection.frames())

    assert asked == ["again? "] * 3 + ["last? "]
    assert [frame.event for frame in rest if frame.event != "output"] == ["finished"]


def test_half_an_answer_leaves_it_waiting(guest: Guest) -> None:
    """A line without its end is not read; the program waits on, and that is reported again."""
    with guest.begin("read -p 'Name: ' x; echo $x") as connection:
        connection.until("waiting")
        guest.ask("send", b"Ada")
        assert connection.until("waiting").head["state"]["prompt"] == "Name: Ada"
        guest.ask("send", b"\n")
        assert connection.until("finished").head["exit_code"] == 0


def test_a_later_connection_receives_the_state(guest: Guest) -> None:
    """The state belongs to the session, not to a connection."""
    with guest.begin("read -p 'Name: ' x", id="asks") as first:
        first.until("waiting")
        with guest.call("wait", id="asks") as second:
            assert second.until("waiting").head["state"]["prompt"] == "Name: "
        with guest.call("exec", b"ignored: it runs already", id="asks") as third:
            assert third.until("waiting").head["id"] == "asks"
        sent = guest.ask("send", b"Ada\n")[0].head
        first.until("finished")

    assert sent["exec"] == "asks"
    assert sent["offset"] > 0


def test_a_refusal_names_the_waiting_program(guest: Guest) -> None:
    """The error says what has to be done first."""
    with guest.begin("read -s -p 'Secret: ' x") as connection:
        connection.until("waiting")
        with pytest.raises(
            Refused, match=r"bash \(pid \d+\) waits for a password \('Secret: '\), \d+ s so far"
        ):
            guest.exec("true")
        _end(guest, connection)


def test_waiting_is_in_the_journal(guest: Guest) -> None:
    """With the shell, the command and the state."""
    with guest.begin("read -p 'Journal? ' x", id="journalled") as connection:
        connection.until("waiting")
        entries = [frame for frame in guest.ask("journal", kinds=["waiting"]) if frame.event == "entry"]
        _end(guest, connection)

    assert b'"id":"journalled"' in entries[-1].payload
    assert b'"prompt":"Journal? "' in entries[-1].payload


def test_a_waiting_program_is_known_after_a_capture(guest: Guest) -> None:
    """The pause around a capture closes all connections; a client that rejoins receives the state."""
    with guest.begin("read -p 'Name: ' x", id="captured") as connection:
        connection.until("waiting")
    guest.pause_and_wake()
    with guest.call("wait", id="captured") as connection:
        assert connection.until("waiting").head["state"]["detail"] == "line"
        guest.ask("send", b"Ada\n")
        connection.until("finished")


def test_nothing_stays_open_between_two_samples(guest: Guest) -> None:
    """A capture does not find files of /proc: they could not be restored."""
    with guest.begin("sleep 600") as connection:
        _until(guest, lambda found: found["detail"] == "sleep")
        assert [path for path in guest.open_files() if path.startswith("/proc/self/task")] == []
        _end(guest, connection)
