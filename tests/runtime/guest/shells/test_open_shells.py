"""Shells in addition to the main one, with a real supervisor and real bash."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.guest.shells.open_shells import MAX_SHELLS, TICK, repeat_size_notice
from holdfast.runtime.guest.shells.terminal import ProcessTerminal, TerminalSize

NOTICED = """python3 -c '
import signal, time
seen = []
signal.signal(signal.SIGWINCH, lambda *_: seen.append(1))
print("rea" + "dy", flush=True)
while not seen: pass
end = time.monotonic() + 0.3
while time.monotonic() < end: pass
print("busy", len(seen), flush=True)
while len(seen) < 2: signal.pause()
print("slept", len(seen), flush=True)
signal.pause()
'
"""


def opened(guest: Guest, name: str, **args: Any) -> dict[str, Any]:
    (frame,) = guest.ask("shell_open", shell=name, **args)
    assert frame.event == "opened", frame.head
    return {**frame.head["shell"], "new": frame.head["new"]}


def close(guest: Guest, name: str, **args: Any) -> None:
    guest.ask("shell_close", shell=name, **args)


def refused(guest: Guest, op: str, payload: bytes = b"", **args: Any) -> str:
    with pytest.raises(Refused) as refusal:
        guest.ask(op, payload, **args)
    return refusal.value.code


def names(guest: Guest) -> list[str]:
    return [one["name"] for one in guest.ask("hello")[0].head["shells"]]


def test_each_has_a_directory_variables_and_a_terminal_of_its_own(guest: Guest) -> None:
    guest.exec("cd /usr; x=main")
    found = opened(guest, "build", rows=50, cols=132)
    assert (found["rows"], found["cols"], found["new"]) == (50, 132, True)
    assert guest.exec("cd /tmp; x=build; stty size", shell="build").output == b"50 132\r\n"
    assert guest.exec("echo $x $PWD", shell="build").output == b"build /tmp\r\n"
    assert guest.exec("echo $x $PWD").output == b"main /usr\r\n"
    assert guest.exec("tty", shell="build").output != guest.exec("tty").output
    assert names(guest) == ["main", "build"]


def test_commands_in_them_run_beside_each_other(guest: Guest) -> None:
    opened(guest, "build")
    with guest.begin("echo up; read line; echo $line", id="first", shell="build") as first:
        first.until_output(b"up")
        assert guest.exec("echo free").output == b"free\r\n"
        guest.ask("send", b"done\n", shell="build")
        assert first.until("finished").head["exit_code"] == 0


def test_opening_one_again_finds_it(guest: Guest) -> None:
    """A request whose answer was lost can be repeated."""
    first = opened(guest, "build")
    guest.exec("x=1", shell="build")
    again = opened(guest, "build", rows=10)
    assert (again["pid"], again["rows"], again["new"]) == (first["pid"], 40, False)
    assert guest.exec("echo $x", shell="build").output == b"1\r\n"


@pytest.mark.parametrize("name", ["", "../main", "a b", "-x", ".", "x" * 41, "é", "a\nb"])
def test_bad_names_are_refused(guest: Guest, name: str) -> None:
    assert refused(guest, "shell_open", shell=name) == "invalid"
    assert names(guest) == ["main"]


def test_their_number_is_limited(guest: Guest) -> None:
    for number in range(MAX_SHELLS - 1):
        opened(guest, f"shell-{number}")
    assert refused(guest, "shell_open", shell="more") == "limit"
    close(guest, "shell-0")
    opened(guest, "more")


def test_a_closed_shell_is_removed_and_its_name_is_free(guest: Guest) -> None:
    opened(guest, "build")
    guest.exec("x=1; echo kept", shell="build")
    close(guest, "build")
    assert names(guest) == ["main"]
    assert not (guest.folder / "state/shells/build").exists()
    assert refused(guest, "exec", b"true", id="late", shell="build") == "unknown_shell"
    opened(guest, "build")
    assert guest.exec("echo ${x-unset}", shell="build").output == b"unset\r\n"


def test_the_main_one_stays(guest: Guest) -> None:
    assert refused(guest, "shell_close", shell="main", force=True) == "invalid"
    assert refused(guest, "shell_close", shell="other") == "unknown_shell"
    assert guest.exec("echo here").output == b"here\r\n"


def test_a_used_shell_is_closed_only_by_force(guest: Guest) -> None:
    """A caller that waits for its command, reads its output or is attached to it comes to an end."""
    opened(guest, "build")
    with guest.begin("echo up; sleep 1000", id="job", shell="build") as job:
        job.until_output(b"up")
        with (
            guest.call("read", shell="build", follow=True) as reader,
            guest.call("attach", shell="build", actor="person:ann") as terminal,
        ):
            terminal.until("attached")
            assert refused(guest, "shell_close", shell="build") in ("in_use", "held")
            close(guest, "build", force=True)
            end = job.until("finished").head
            assert (end["signal"], end["shell_exited"]) == (signal.SIGHUP, True)
            assert reader.until("eof")
            assert terminal.until("closed").head["reason"] == "closed"
    assert names(guest) == ["main"]


def test_a_held_shell_is_not_closed(guest: Guest) -> None:
    opened(guest, "build")
    guest.ask("lease", shell="build", action="take", actor="person:ann")
    assert refused(guest, "shell_close", shell="build", actor="agent:bob") == "held"
    close(guest, "build", actor="person:ann")
    assert names(guest) == ["main"]


def test_a_shell_that_ignores_the_hangup_is_killed(guest: Guest) -> None:
    opened(guest, "build")
    guest.exec("trap '' HUP", shell="build")
    close(guest, "build")
    assert names(guest) == ["main"]


def test_shells_are_there_after_a_capture(guest: Guest) -> None:
    opened(guest, "build")
    with guest.begin("x=5; echo up; read line", id="job", shell="build") as job:
        job.until_output(b"up")
        guest.pause_and_wake()
    with guest.call("wait", id="job", shell="build") as joined:
        guest.ask("send", b"\n", shell="build")
        assert joined.until("finished").head["exit_code"] == 0
    assert guest.exec("echo $x", shell="build").output == b"5\r\n"


def test_a_new_supervisor_has_the_main_one_only(guest: Guest) -> None:
    """As after a restore of files alone: nothing of the old shell is in a new one of its name."""
    opened(guest, "build")
    guest.exec("x=1", shell="build")
    guest.restart()
    assert names(guest) == ["main"]
    opened(guest, "build")
    assert guest.exec("echo ${x-unset}", shell="build").output == b"unset\r\n"


@pytest.fixture
def terminal() -> Iterator[ProcessTerminal]:
    """Yield the terminal of a shell."""
    made = ProcessTerminal(
        ["bash", "--norc", "-i"],
        cwd="/",
        env={**os.environ, "PS1": "$ "},
        size=TerminalSize(24, 80),
        in_child=lambda: None,
    )
    yield made
    made.close()
    os.waitpid(made.pid, 0)


async def _until(terminal: ProcessTerminal, text: bytes) -> bytes:
    output, deadline = b"", time.monotonic() + 30
    while text not in output:
        assert time.monotonic() < deadline, output
        output += terminal.read() or b""
        await asyncio.sleep(0.01)
    return output


def test_a_program_that_was_busy_at_the_first_notice_gets_a_second_one(terminal: ProcessTerminal) -> None:
    """It comes when the program sleeps, not before."""

    async def run() -> None:
        await terminal.write(NOTICED.encode())
        await _until(terminal, b"ready")
        terminal.resize(TerminalSize(40, 120))
        repeat_size_notice(lambda: terminal)
        assert b"busy 1" in await _until(terminal, b"slept 2")

    asyncio.run(run())


def test_a_shell_at_its_prompt_gets_none(terminal: ProcessTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the size itself."""

    async def run() -> None:
        await _until(terminal, b"$ ")
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *_: pytest.fail("it waits"))
        repeat_size_notice(lambda: terminal)

    asyncio.run(run())


def test_a_terminal_that_ended_meanwhile_gets_no_size(terminal: ProcessTerminal) -> None:
    """Its number can already belong to a different terminal."""

    async def run() -> None:
        await terminal.write(NOTICED.encode())
        await _until(terminal, b"ready")
        repeat_size_notice(iter([terminal, None]).__next__)
        terminal.signal_foreground(signal.SIGWINCH)
        await _until(terminal, b"busy 1")
        await asyncio.sleep(2 * TICK)
        terminal.signal_foreground(signal.SIGWINCH)
        await _until(terminal, b"slept 2")

    asyncio.run(run())
