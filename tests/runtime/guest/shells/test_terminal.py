"""A terminal belongs to its program from the first instruction on: no one else sets it afterwards."""

from __future__ import annotations

import os
import termios
import time
from pathlib import Path

import pytest

from holdfast.runtime.guest.shells.terminal import ProcessTerminal, TerminalSize


def _started(argv: list[str]) -> ProcessTerminal:
    return ProcessTerminal(
        argv, cwd="/", env=dict(os.environ), size=TerminalSize(24, 80), in_child=lambda: None
    )


def _local_flags(terminal: ProcessTerminal) -> int:
    return int(termios.tcgetattr(terminal.fd)[3])


def test_settings_the_program_makes_at_once_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that is faster than its parent keeps its raw mode: without it, it would get no keys."""
    parent, original, done = os.getpid(), termios.tcgetattr, tmp_path / "done"

    def late(fd: int) -> list[object]:
        found = original(fd)
        deadline = time.monotonic() + 60
        while os.getpid() == parent and not done.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return list(found)

    monkeypatch.setattr("holdfast.runtime.guest.shells.terminal.termios.tcgetattr", late)
    terminal = _started(["/bin/sh", "-c", f"stty -icanon; : > {done}; exec cat"])
    monkeypatch.undo()
    deadline = time.monotonic() + 60
    while not done.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        assert not _local_flags(terminal) & termios.ICANON
    finally:
        terminal.close()
        os.waitpid(terminal.pid, 0)


def test_a_terminal_erases_whole_characters() -> None:
    """The line discipline knows UTF-8 before the program starts."""
    terminal = _started(["/bin/sh", "-c", "stty -a | tr ' ' '\\n' | grep iutf8; exec cat"])
    output, deadline = b"", time.monotonic() + 60
    while b"iutf8" not in output and time.monotonic() < deadline:
        output += terminal.read() or b""
        time.sleep(0.01)
    terminal.close()
    os.waitpid(terminal.pid, 0)
    assert output.strip() == b"iutf8"
