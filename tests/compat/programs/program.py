"""A program of the catalog: how it starts, when it is in the middle of its work, how it is checked.

Pure. Nothing here knows sessions; `trial.py` drives them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Where = Literal["job", "shell", "foreground", "cell"]
NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,40}")
MEMORY = 4 << 30


@dataclass(frozen=True, slots=True)
class Run:
    """A command that checks the program and prints its verdict (`verdict.py`)."""

    command: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Code for the kernel that prints its verdict."""

    code: str


@dataclass(frozen=True, slots=True)
class Type:
    """Text typed into the program's terminal."""

    text: str


@dataclass(frozen=True, slots=True)
class Shows:
    """A pattern that the program's terminal shows, in its output since the check began."""

    pattern: str


Step = Run | Cell | Type | Shows


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    `start` is given to a job of its own, to the main shell (and must return), to the main shell in the
    foreground (and waits there), or to the kernel, as `where` says. All commands begin in a folder of its
    own, with `lib.sh` read. `ready` is a command that succeeds as soon as it is in the middle of its work.

    `check` is done once in the captured session and once in every copy: the program must continue, so it asks
    the process that was captured, not a new one.

    `prepare` runs before, to compile. `stack` names the packages it needs (`tests/compat/stacks.py`).
    `alone`: not in one session with others. `refusable` are words of which one must be in the message if a
    capture is refused, or of the program's own if it cannot run in a session at all; without any it must be
    captured.
    """

    name: str
    family: str
    does: str
    start: str
    ready: str
    check: tuple[Step, ...]
    where: Where = "job"
    prepare: str = ""
    stack: str = ""
    alone: bool = False
    memory: int = MEMORY
    refusable: tuple[str, ...] = ()

    def faults(self) -> list[str]:
        """Return the errors in the entry itself."""
        found = []
        if not NAME.fullmatch(self.name):
            found.append("its name is not of small letters, digits and dashes")
        if not (self.family and self.does and self.start.strip() and self.ready.strip()):
            found.append("it lacks a family, a description, a start or what says that it is ready")
        if not any(isinstance(step, (Run, Cell, Shows)) for step in self.check):
            found.append("its check looks at nothing")
        if self.where == "foreground" and not self.alone:
            found.append("it takes the shell and is not alone")
        if self.where == "cell" and any(isinstance(step, (Type, Shows)) for step in self.check):
            found.append("a kernel has no terminal to type into")
        return found
