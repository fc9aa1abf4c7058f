"""The output of the demonstration: steps, findings, progress, and the table at its end.

Knows nothing of sessions.  On a terminal progress moves; elsewhere it is a line now and then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.table import Table

# Without a terminal, a line each time this much more is done. Percent.
STRIDE = 25


class CheckFailed(Exception):
    """A check of the demonstration failed; the message is one line for people."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: seconds, bytes and a remark, each if there is one."""

    what: str
    seconds: float | None = None
    size: int | None = None
    remark: str = ""


class Narrator:
    """A printer of progress that keeps the figures."""

    def __init__(self, steps: int) -> None:
        self._console = Console(highlight=False, markup=False, soft_wrap=True)
        self._steps = steps
        self._step = 0
        self._figures: list[Figure] = []
        self._checks = 0
        self._about = ""
        self._began = time.monotonic()

    def step(self, title: str) -> None:
        """Begin the next step."""
        self._step += 1
        self.heading(f"[{self._step}/{self._steps}] {title}")

    def heading(self, title: str) -> None:
        """Begin something that is not a step of the job."""
        self._console.print(f"\n{title}", style="bold")

    def say(self, line: str) -> None:
        """Print one line."""
        self._console.print(f"  {line}")

    def hint(self, line: str) -> None:
        """Print the progress that another program reports."""
        self._console.print(f"  {line}", style="dim")

    def check(self, held: bool, fact: str, found: object = "it is not so") -> None:
        """Print that a fact holds.

        Raises:
            CheckFailed: it does not.
        """
        if not held:
            raise CheckFailed(f"not so: {self._about}{fact}; found: {found}")
        self._checks += 1
        self._console.print(f"  ok  {self._about}{fact}", style="green")

    @contextmanager
    def about(self, whom: str) -> Iterator[None]:
        """Name the subject of the facts printed in the block."""
        self._about = f"{whom}: "
        yield
        self._about = ""

    def figure(
        self, what: str, seconds: float | None = None, *, size: int | None = None, remark: str = ""
    ) -> None:
        """Keep a line for the table."""
        self._figures.append(Figure(what, seconds, size, remark))

    @contextmanager
    def timed(self, what: str, *, remark: str = "") -> Iterator[None]:
        """Time a block, print it, and keep it for the table."""
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        self.say(f"{what}: {took:.2f} s")
        self.figure(what, took, remark=remark)

    @contextmanager
    def bars(self) -> Iterator[Bars]:
        """Show progress of one thing or of several at once."""
        if not self._console.is_terminal:
            yield Bars(self, None)
            return
        columns = (TextColumn("  {task.description}"), BarColumn(), TaskProgressColumn())
        with Progress(*columns, console=self._console) as progress:
            yield Bars(self, progress)

    def table(self) -> None:
        """Print the table."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("what")
        table.add_column("time", justify="right")
        table.add_column("size", justify="right")
        table.add_column("")
        for one in self._figures:
            seconds = "" if one.seconds is None else _seconds(one.seconds)
            table.add_row(one.what, seconds, "" if one.size is None else decimal(one.size), one.remark)
        self._console.print()
        self._console.print(table)
        took = time.monotonic() - self._began
        self._console.print(f"\nAll {self._checks} checks held, in {took:.0f} s.", style="bold green")


class Bars:
    """The progress of several things, in percent."""

    def __init__(self, narrator: Narrator, progress: Progress | None) -> None:
        self._narrator = narrator
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._told: dict[str, int] = {}

    def show(self, name: str, percent: int) -> None:
        """Show the progress of one of them."""
        if self._progress is None:
            told = self._told.setdefault(name, percent // STRIDE)
            if percent // STRIDE > told:
                self._told[name] = percent // STRIDE
                self._narrator.say(f"{name}: {percent} %")
            return
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=100)
        self._progress.update(self._tasks[name], completed=percent)


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
