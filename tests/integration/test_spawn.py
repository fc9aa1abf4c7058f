"""pexpect over a session: programs are driven as local ones, and continue in copies and after a pause."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from typing import Any

import pexpect
import pytest
from tests.integration.served import Served

from holdfast import AsyncHoldfast, Holdfast, RemoteHoldfast, Session
from holdfast.base.home import Home
from holdfast.errors import GuestError, InvalidArgument, OnlyInProcess, SessionError

ASKS = ["-c", "read -s -p 'Password: ' word; echo; echo said $word; read line; exit 7"]


@pytest.mark.parametrize("over", ["in process", "over a URL"])
def test_a_conversation_is_that_of_pexpect(shared: Session, remote: RemoteHoldfast, over: str) -> None:
    session = shared if over == "in process" else remote.session("shared")
    log = io.BytesIO()
    with session.spawn("bash", ASKS, logfile=log, env={"LC_ALL": "C.UTF-8"}) as child:
        assert child.getwinsize() == (24, 80)
        assert child.expect(["nothing", b"Pass(w)ord: ", pexpect.EOF]) == 1
        assert (child.before, child.match.group(1), child.isalive()) == (b"", b"w", True)
        assert child.waitnoecho()
        child.sendline("é")
        child.expect_exact("said é\r\n".encode())
        with pytest.raises(pexpect.TIMEOUT, match="SessionSpawn"):
            child.expect("nothing", timeout=0.1)
        child.setwinsize(30, 90)
        assert (child.getwinsize(), child.getecho()) == ((30, 90), True)
        child.setecho(False)
        child.sendline("unseen")
        child.expect(pexpect.EOF)
        assert (child.before, child.exitstatus, child.signalstatus, child.wait()) == (b"", 7, None, 7)
    assert child.closed
    assert b"Password: " in log.getvalue()
    with pytest.raises(ValueError, match="closed file"):
        child.read_nonblocking()


def test_a_program_is_ended_or_left(shared: Session) -> None:
    child = shared.spawn("cat", echo=False)
    child.sendline("a line")
    child.expect("a line\r\n")
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    assert (child.isalive(), child.exitstatus, child.signalstatus) == (False, None, signal.SIGTERM)

    stubborn = shared.spawn("bash", ["-c", "trap '' HUP INT; echo ready; while :; do read x; done"])
    stubborn.expect("ready")
    with pytest.raises(pexpect.ExceptionPexpect, match="Could not terminate"):
        stubborn.close(force=False)
    left = shared.job(stubborn.job.id)
    assert left.info().running
    left.signal("KILL")

    ignores = shared.spawn("sleep 1000", ignore_sighup=True, name="ignores")
    ignores.kill(signal.SIGHUP)
    ignores.leave()
    assert shared.job("ignores").info().running
    shared.job("ignores").signal("KILL")
    typed = shared.spawn("cat")
    typed.sendcontrol("d")
    typed.expect(pexpect.EOF)
    assert typed.wait() == 0


def test_much_output_is_read_whole(shared: Session) -> None:
    """More output than the pipe, the socket and the session's memory hold, read late."""
    child = shared.spawn("seq 400000", maxread=1 << 16, timeout=120)
    child.expect(pexpect.EOF)
    assert child.before.replace(b"\r", b"") == b"".join(b"%d\n" % n for n in range(1, 400_001))


def test_a_conversation_goes_on_in_copies_and_after_a_pause(shared: Session) -> None:
    child = shared.spawn("python3 -q", encoding="utf-8", echo=True)
    child.expect(">>> ")
    child.sendline("number = 40; print('unread', 'text')")
    child.expect("unread text\r\n")
    copies = shared.fork(2, "spawned")
    children = [child, *(child.in_fork(copy) for copy in copies)]
    for more, each in enumerate(children):
        assert each.match.group(0) == "unread text\r\n"
        each.expect(">>> ")
        each.sendline(f"print('made', number + {more})")
        each.expect(r"made (\d+)\r")
        assert each.match.group(1) == str(40 + more)

    paused = children[1]
    copies[0].suspend()
    with pytest.raises(SessionError, match="suspended"):
        paused.expect("more")
    copies[0].resume()
    paused.sendline("print('still', number)")
    paused.expect(r"still (\d+)\r")
    assert paused.match.group(1) == "40"
    for each in children:
        each.close()
    for copy in copies:
        copy.remove()


def test_a_spawned_child_is_awaited_without_blocking(shared: Session) -> None:
    async def drive() -> tuple[int, int]:
        child = shared.spawn("bash", ["-c", "read line; echo got $line"], echo=False)
        child.sendline("this")
        first = await child.expect("got this", async_=True)
        return first, await child.expect([pexpect.TIMEOUT, pexpect.EOF], async_=True)

    assert asyncio.run(drive()) == (0, 1)


def test_a_person_joins_it(shared: Session, shared_home: Home) -> None:
    """`interact` passes keys and output between two terminals, and no question reaches the person's."""
    script = (
        "import sys; from holdfast import Holdfast\n"
        "session = Holdfast(sys.argv[1]).session('shared')\n"
        r"""child = session.spawn('bash', ['-c', 'printf "\\033[6nsafe\\n"; read a; echo got $a; read b'])"""
        "\nchild.interact()\nprint('left', child.isalive())\nchild.close()\n"
    )
    local: Any = pexpect.spawn(
        sys.executable, ["-c", script, shared_home.place], timeout=60, encoding="utf-8"
    )
    local.expect("safe")
    assert "\x1b[6n" not in local.before
    local.send("hello\r")
    local.expect("got hello")
    local.send("\x1d")
    local.expect("left True")
    local.expect(pexpect.EOF)


def test_mistakes_are_reported(shared: Session, server: Served) -> None:
    with pytest.raises(InvalidArgument, match="its command is empty"):
        shared.spawn("")
    with pytest.raises(InvalidArgument, match="must be a list"):
        shared.spawn("ls", "-l")
    missing = shared.spawn("no-such-program")
    missing.expect(pexpect.EOF)
    assert (b"not found" in missing.before, missing.exitstatus) == (True, 127)
    with pytest.raises(GuestError, match="cannot reach the terminal"):
        missing.getecho()

    async def from_a_coroutine() -> None:
        async with AsyncHoldfast(server.url, token=server.token) as controller:
            await (await controller.session("shared")).spawn("cat")

    with pytest.raises(OnlyInProcess, match="blocks its caller"):
        asyncio.run(from_a_coroutine())


def test_a_session_that_ended_says_so(hf: Holdfast) -> None:
    work = hf.new("work")
    child = work.spawn("cat", echo=False)
    child.sendline("here")
    child.expect("here")
    work.remove()
    with pytest.raises(SessionError, match="cannot "):
        child.expect("there")
