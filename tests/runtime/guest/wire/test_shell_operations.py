"""A taken shell: the callers that wait for it, their time, and commands that are already ending."""

from __future__ import annotations

import pytest
from tests.runtime.guest.harness import Guest, Refused


def _said(guest: Guest, **args: object) -> str:
    with pytest.raises(Refused) as refused:
        guest.exec("true", **args)
    return str(refused.value)


def test_the_next_command_after_an_interrupt_or_an_answer_is_taken(guest: Guest) -> None:
    """A command that is ending does not make the shell busy; a command that waits for more does,
    immediately."""
    for number in range(3):
        with guest.begin("read x", id=f"r{number}") as connection:
            connection.until("waiting")
            sent = guest.ask("signal", signal="INT")[-1].head
            assert sent["exec"] == f"r{number}"
            assert guest.exec("echo next").output == b"next\r\n"
            assert connection.until("finished").head["exit_code"] == 130
        with guest.begin("read x") as connection:
            connection.until("waiting")
            guest.ask("send", b"line\n")
            assert guest.exec("echo $x").output == b"line\r\n"
    with guest.begin("read a; read -p 'more? ' b") as connection:
        connection.until("waiting")
        guest.ask("send", b"one\n")
        connection.until("waiting")
        assert "waits for a line ('more? ')" in _said(guest)
        guest.ask("signal", signal="INT")
        connection.until("finished")
    assert guest.ask("signal", signal="INT")[-1].head["exec"] is None


def test_an_interrupt_of_one_command_leaves_others_alone(guest: Guest) -> None:
    """A caller that gives up must not stop a different caller's command, nor a person's input."""
    with guest.begin("mkfifo gate; read x < gate", id="first") as connection:
        sent = guest.ask("signal", signal="INT", id="other")[-1].head
        assert (sent["exec"], sent["reached"]) == (None, False)
        assert guest.shell()["exec"] == "first"
        sent = guest.ask("signal", signal="INT", id="first")[-1].head
        assert (sent["exec"], sent["reached"]) == ("first", True)
        assert connection.until("finished").head["exit_code"] == 130
    assert guest.ask("signal", signal="INT", id="first")[-1].head["reached"] is False


def test_a_caller_can_wait_for_a_taken_shell(guest: Guest) -> None:
    """They get it one after the other, also after typed lines; a caller whose time is over is refused."""
    with guest.begin("mkfifo gate; read x < gate", id="first"):
        assert "first is running" in _said(guest)
        assert "first is running" in _said(guest, busy_wait=0.3)
        waiting = [guest.call("exec", f"echo {n}".encode(), id=f"w{n}", busy_wait=60) for n in range(3)]
        assert guest.shell()["exec"] == "first"
        (guest.folder / "work" / "gate").write_text("go\n")
        outputs = [connection.until("output").payload for connection in waiting]
    assert outputs == [b"0\r\n", b"1\r\n", b"2\r\n"]

    guest.ask("send", b"read x < gate; echo typed\n")
    typed = guest.call("exec", b"echo after", id="after", busy_wait=60)
    _said(guest, busy_wait=0.7)
    (guest.folder / "work" / "gate").write_text("go\n")
    assert typed.until("output").payload == b"after\r\n"


def test_a_caller_can_wait_for_a_taken_kernel(guest: Guest) -> None:
    """The next cell begins after the end of the previous one; a caller whose time has passed is refused."""
    guest.exec("mkfifo gate")
    with guest.cell("open('gate').read(); x = 7") as first:
        first.until("started")
        for args in ({}, {"busy_wait": 0.3}):
            with pytest.raises(Refused, match="is running; wait"):
                guest.run_cell("x", **args)
        waiting = guest.cell("x + 1", busy_wait=60)
        (guest.folder / "work" / "gate").write_text("go")
        assert waiting.until("execute_result").payload.count(b'"8"') == 1
