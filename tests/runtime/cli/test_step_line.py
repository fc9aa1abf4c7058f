"""The line of the current step: only on terminals, only after a second, erased before other output."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import sys
from collections.abc import Iterator

import pytest

from holdfast.runtime.cli import caller, printing, step_line, transfer_verbs
from holdfast.runtime.cli.step_line import StepLine
from holdfast.runtime.operations.step import Step


class Terminal:
    """A terminal as standard error, and the output that reached it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        self.stream = os.fdopen(slave, "w")
        self.seen = ""
        self._monkeypatch = monkeypatch

    def line(self) -> StepLine:
        """Make it standard error, which pytest replaces before each test, and return its line."""
        self._monkeypatch.setattr(sys, "stderr", self.stream)
        self._monkeypatch.setenv("TERM", "xterm")
        line = step_line.of_this_process()
        assert line is not None
        return line

    def read(self) -> str:
        with contextlib.suppress(BlockingIOError):
            self.seen += os.read(self.master, 1 << 16).decode()
        return self.seen

    def until(self, text: str) -> None:
        """Wait until a text was written: the test's own time limit ends a wait for nothing."""
        while text not in self.read():
            select.select([self.master], [], [])


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setattr(printing, "clear_line", None)
    monkeypatch.setattr(printing, "line_open", False)  # output of an earlier test may have ended within one
    monkeypatch.setattr(step_line, "PATIENCE", 0.0)
    monkeypatch.setattr(step_line, "REFRESH", 0.01)
    made = Terminal(monkeypatch)
    yield made
    made.stream.close()
    os.close(made.master)


def test_a_step_is_shown_and_goes_before_other_output(terminal: Terminal) -> None:
    """Output begins at the start of an empty line."""
    line = terminal.line()
    line(Step("freezing work"))
    terminal.until("holdfast: freezing work … 0 s")
    line(None)
    printing.note("done")
    terminal.until("done")
    assert terminal.seen.rpartition("freezing work … 0 s")[2] == "\r\x1b[2Kholdfast: done\r\n"


def test_amounts_and_long_steps_fit_the_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is cut at the width of the terminal, and shows no control characters."""
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((30, 24)))
    line = terminal.line()
    line(Step("restoring \x1b[31m" + "x" * 100, 1, 3))
    terminal.until("xxx")
    line(None)
    shown = terminal.read().split("\x1b[2K")[1].rstrip("\r")
    assert len(shown) == 29
    assert "\x1b" not in shown


def test_short_steps_are_not_shown(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most operations end before anyone wonders."""
    monkeypatch.setattr(step_line, "PATIENCE", 3600.0)
    line = terminal.line()
    line(Step("freezing work"))
    line(None)
    printing.note("done")
    terminal.until("done")
    assert terminal.seen == "holdfast: done\r\n"


def test_pipes_and_dumb_terminals_get_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log has what happened, not what was under way."""
    terminal.line()
    monkeypatch.setenv("TERM", "dumb")
    assert step_line.of_this_process() is None
    read, write = os.pipe()
    with os.fdopen(write, "w") as piped:
        monkeypatch.setattr(sys, "stderr", piped)
        monkeypatch.setenv("TERM", "xterm")
        assert step_line.of_this_process() is None
    os.close(read)


def test_steps_are_not_written_into_a_bar(terminal: Terminal) -> None:
    """Both would have the same line of the terminal; the line returns after the bar has ended."""
    terminal.line()
    printing.clear_line = None
    caller._line.cache_clear()
    with transfer_verbs.bar("moving"):
        caller.doing(Step("freezing work"))
        assert printing.clear_line is None
    caller.doing(Step("removing work"))
    terminal.until("removing work")
    caller.doing(None)
    caller._line.cache_clear()
    assert "freezing work" not in terminal.seen


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step("checking"), "checking"),
        (Step("checking", 1, 3), "checking (1 of 3)"),
        (Step("checking", 1), "checking (1)"),
    ],
)
def test_a_step_as_text(step: Step, expected: str) -> None:
    """Amounts are in the text where they are known."""
    assert str(step) == expected


def test_a_line_of_output_that_has_not_ended_stays(terminal: Terminal) -> None:
    """A step waits for the end of the line: it would be written into it, and erase it."""
    line = terminal.line()
    printing._write(terminal.stream, b"Collecting")
    line(Step("setup: pip install x"))
    line(Step("setup: pip install y"))
    printing._write(terminal.stream, b" x\n")
    terminal.until("setup: pip install y")
    assert terminal.seen.startswith("Collecting x\r\n")
    line(None)
