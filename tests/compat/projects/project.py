"""A project of the acceptance suite: how to fetch, build and run it, how to read the result.

Pure. Knows nothing of sessions; `trial.py` drives them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.compat.projects import readers

KINDS = ("python", "node", "go", "rust", "java", "c", "database")
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,40}")
MEMORY = 4 << 30


@dataclass(frozen=True, slots=True)
class Project:
    """One project, or one part of its suite.

    All commands are for bash. `fetch` begins in an empty folder and leaves the project there, `build`
    changes it further; both can use the functions of `commands.LIBRARY`. `run` begins in a fresh copy of
    that folder each time. `reads` names the reader (`readers.READERS`) of the file `result`, or of the
    command's output; it is empty if there are no cases. `files` are patterns of files below that folder
    whose bytes are compared afterwards, folders with all that is in them. `version` prints the version.
    `stack` names an image of `tests/compat/stacks.py`. `folder` is one of the host to begin with; it is
    only read. `known` says why something differs, if it does and the reason is known. `measured` is a
    pattern for the runner's message about a case that took too long by the time of day, with the
    milliseconds as its group. `patience` is for one run, in seconds.
    """

    name: str
    kind: str
    does: str
    run: str
    fetch: str = ":"
    build: str = ""
    reads: str = ""
    result: str = ""
    files: tuple[str, ...] = ()
    version: str = ""
    stack: str = ""
    folder: str = ""
    known: str = ""
    measured: str = ""
    patience: float = 300.0
    memory: int = MEMORY

    def faults(self) -> list[str]:
        """Return the errors in the declaration itself."""
        found = []
        if not NAME.fullmatch(self.name):
            found.append("its name is not of small letters, digits, dots and dashes")
        if not (self.run.strip() and self.does.strip()):
            found.append("it lacks a command or a description")
        if self.reads and self.reads not in readers.READERS:
            found.append(f"there is no reader '{self.reads}'")
        if not self.reads and not self.files:
            found.append("it has neither cases nor files to compare")
        if self.measured and re.compile(self.measured).groups != 1:
            found.append("what it measured is not one group")
        if any(pattern.startswith("/") or ".." in pattern for pattern in self.files):
            found.append("files are not below its folder")
        return found
