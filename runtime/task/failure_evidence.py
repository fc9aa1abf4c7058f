"""The evidence about a failed command or cell: its end, events during its run, its last output.

Pure. Output and reports come from the session: they are bounded here, and only ever searched.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from holdfast.base.text import colored

TAIL = 16 << 10
"""Characters of output that are looked at, the last ones."""
_LINE_AGAIN = re.compile(r"\x1b\[[01]?G|\x1b\[2K")
"""What a program does before it writes a line once more, for instance after a turning spinner."""
MOST_REPORT = 1 << 20
"""Bytes of a test report that are read."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The end of a command or cell.

    `exit_code` is 128+n after signal n. `events` are the kinds of journal entries during its run (`oom`,
    `kernel_died`, `refused`). `waiting` is what it waits for: `line`, `password`, `key`, `pager`, `repl`.
    `error` is the exception of a cell, `report` a test report in JUnit's form.
    """

    command: str = ""
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    waiting: str = ""
    events: frozenset[str] = frozenset()
    error: str = ""
    output: str = ""
    report: bytes = b""

    @property
    def tail(self) -> str:
        """The end of the output as plain lines, the cell's exception after it."""
        last = self.output[-TAIL:]
        if len(last) < len(self.output):  # a sequence may have been cut in the middle
            last = last.partition("\n")[2] or last
        rewritten = _LINE_AGAIN.sub("\n", last)
        text = colored(rewritten, keep=False).replace("\r\n", "\n").replace("\r", "\n")
        return f"{text}\n{self.error[:TAIL]}" if self.error else text

    @property
    def ended_by(self) -> int | None:
        """The signal that ended it, if one did."""
        if self.signal is not None:
            return self.signal
        code = self.exit_code
        return code - 128 if code is not None and 128 < code <= 128 + 64 else None


@dataclass(frozen=True, slots=True)
class TestReport:
    """The counts of a test report, and the first test that failed with its message."""

    tests: int
    failed: int
    first: str
    message: str


def read_report(data: bytes) -> TestReport | None:
    """Return what a report in JUnit's form says; None if it is not one.

    Entities are refused, because they can expand without bound.
    """
    if not data or len(data) > MOST_REPORT:
        return None
    try:
        # As text: in another encoding, which the report itself may name, a declaration would not be found.
        text = data.decode()
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            return None
        root = ElementTree.fromstring(text)  # noqa: S314 - bounded, and without entities
    except (ElementTree.ParseError, ValueError, LookupError, RecursionError):
        return None
    if root.tag not in ("testsuite", "testsuites"):
        return None
    cases = list(root.iter("testcase"))
    first, message, failed = "", "", 0
    for case in cases:
        trouble = case.find("failure")
        trouble = case.find("error") if trouble is None else trouble
        if trouble is not None:
            failed += 1
            first = first or f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::")
            message = message or trouble.get("message", "")
    return TestReport(len(cases), failed, first, message)
