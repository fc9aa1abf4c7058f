"""Notices of a size, with a real terminal and real programs."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest

from holdfast.runtime.guest.shells import size_notice
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
        size_notice.repeat(lambda: terminal)
        assert b"busy 1" in await _until(terminal, b"slept 2")

    asyncio.run(run())


def test_a_shell_at_its_prompt_gets_none(terminal: ProcessTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the size itself."""

    async def run() -> None:
        await _until(terminal, b"$ ")
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *_: pytest.fail("it waits"))
        size_notice.repeat(lambda: terminal)

    asyncio.run(run())


def test_a_terminal_that_is_gone_meanwhile_gets_none(terminal: ProcessTerminal) -> None:
    """Its number may already belong to another one."""

    async def run() -> None:
        await terminal.write(NOTICED.encode())
        await _until(terminal, b"ready")
        size_notice.repeat(iter([terminal, None]).__next__)
        terminal.signal_foreground(signal.SIGWINCH)
        await _until(terminal, b"busy 1")
        await asyncio.sleep(2 * size_notice.TICK)
        terminal.signal_foreground(signal.SIGWINCH)
        await _until(terminal, b"slept 2")

    asyncio.run(run())
