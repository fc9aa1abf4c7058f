"""Classifies a failure by its evidence, with the decisive line and where to look next. Pure.

The way it ended counts before its output: a killed process cannot lie about memory, and a question on the
terminal is not a guess. Programs can print anything, so a kind is advice, never a permission. A command can
hide failures (`pytest || true`) or run no test at all; a report that it had to write cannot.

The detail is the line that a person would quote. The last line is seldom that line: tools end with hints,
versions and paths of logs. Output and reports come from the session: they are bounded here, and only ever
searched, with expressions in RE2's syntax.
"""

from __future__ import annotations

import re
import signal
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from holdfast.base.text import colored, plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.scrubbing.rule import compiled
from holdfast.runtime.task.failure_rule import FailureRule
from holdfast.runtime.task.failure_rules import RULES

TAIL = 16 << 10
"""Characters of output that are looked at, the last ones."""
_LINE_AGAIN = re.compile(r"\x1b\[[01]?G|\x1b\[2K")
"""A program's control sequences before it writes a line once more, for instance after a turning spinner."""
MOST_REPORT = 1 << 20
"""Bytes of a test report that are read."""
LONGEST = 200
"""Characters of a line."""
_NOISE = (
    r"^\s*(?:at |note: |help: |hint: |Node\.js v\d|ℹ |# |\(Use `node|goroutine \d|exit status \d|FAIL$|FAIL\t"
    r"|make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error) (?:A complete log|path |command |code )"
    r"|\[ERROR\] *(?:\[Help|->|To see|Re-run|For more|$)"
    r"|Run with |For more information|See |Try |Aborted|Segmentation fault|\$ |> |\+ |[\W\d_]*$)"
)
"""Ends of outputs that do not tell the failure: frames, hints, versions, counts, echoed commands."""
_NONE = r"(?i)\b(?:no|0|without|zero) (?:\w+ )?(?:error|failure|fail|problem|warning)"
_NAMES = (
    r"(?i)^\W*(?:[\w./-]+: )*(?:(?:fatal|internal|uncaught|unhandled|build|runtime|syntax|type) )?"
    r"(?:error|fatal|fail(?:ed|ure)?|panic|exception|abort(?:ed)?|critical|traceback)\b[\w\[\]() ]*:",
    r"(?i)(?:\b|[a-z])(?:error|exception|panic\w*)\b|\bfatal\b|\bfail(?:ed|ure|s)?\b",
    r"(?i)\b(?:cannot|can't|could(?: not|n't)|unable|not found|denied|refused|rejected|invalid|illegal"
    r"|missing|unexpected|undefined|unknown|unsupported|mismatch|expected|wrong|violat\w+|conflict\w*"
    r"|timed out|no such)\b",
)
"""The names of a failure, from the plainest on."""
_DETAIL = LONGEST
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The end of a command or cell.

    `exit_code` is 128+n after signal n. `events` are the kinds of journal entries during its run (`oom`,
    `kernel_died`, `refused`). `waiting` is the input it waits for: `line`, `password`, `key`, `pager`,
    `repl`. `error` is the exception of a cell, `report` a test report in JUnit's form.
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
    """Return the content of a JUnit report; None if it is not one.

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


def quoted_line(text: str) -> str:
    """Return the line of an output that best explains the failure; empty if there is none.

    It is the first that calls itself an error, else one that speaks of one, else the last that is more than
    a hint.
    """
    lines = [line for line in _lines(text) if any(map(str.isalnum, line)) and not _matches(_NONE, line)]
    telling = [line for line in lines if not _matches(_NOISE, line)]
    for name in _NAMES:
        found = next((line for line in telling if _matches(name, line)), None)
        if found is not None:
            return found
    return (telling or lines or [last_line(text)])[-1]


def last_line(text: str) -> str:
    """Return the last line that is not blank; empty if there is none."""
    return next(reversed([*_lines(text)]), "")


def _lines(text: str) -> Iterator[str]:
    return (plain(line, LONGEST).strip() for line in text.splitlines() if line.strip())


def _matches(pattern: str, line: str) -> bool:
    return _expression(pattern).search(line.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=512)
def _expression(pattern: str) -> Any:
    return compiled(pattern.encode())


@dataclass(frozen=True, slots=True)
class FailureClass:
    """The kind of a failure, its detail, where to look next; and the `seen` line, with its rule."""

    failure_type: str
    failure_detail: str
    suggested_focus: str
    seen: str

    def as_dict(self) -> dict[str, str]:
        """Return the fields for programs."""
        return as_table(self)


def classify(evidence: Evidence, own: Sequence[FailureRule] = ()) -> FailureClass | None:
    """Return the kind of a failure; None if it did not fail.

    Args:
        evidence: how it ended.
        own: a user's rules, which come before the table's.
    """
    if not _failed(evidence):
        return None
    return (
        _by_event(evidence)
        or _by_rules(evidence, own)
        or _by_report(evidence)
        or _by_crash(evidence)
        or _by_rules(evidence, RULES)
        or _by_end(evidence)
    )


def _failed(evidence: Evidence) -> bool:
    ended_well = evidence.exit_code in (0, None) and evidence.signal is None and not evidence.error
    return not (ended_well and not evidence.timed_out and not evidence.waiting and not _fatal(evidence))


def _fatal(evidence: Evidence) -> bool:
    return evidence.exit_code is None and bool(evidence.events & {"oom", "kernel_died"})


def _by_event(evidence: Evidence) -> FailureClass | None:
    last = last_line(evidence.tail)
    if "oom" in evidence.events:
        focus = "use less memory at a time, or raise the session's memory limit"
        return FailureClass("out_of_memory", last, focus, "event oom: the session's memory limit was reached")
    if "kernel_died" in evidence.events:
        focus = "find the cell that ended the kernel's process; its variables are gone"
        return FailureClass("kernel_died", last, focus, "event kernel_died")
    if evidence.waiting:
        focus = "answer it with `holdfast send`, or run it so that it does not ask"
        return FailureClass("waiting_for_input", last, focus, f"it waits for input: {evidence.waiting}")
    if evidence.timed_out:
        focus = "find its last action; then give it more time, or less work"
        return FailureClass("timeout", last, focus, "its time limit was reached")
    return None


def _by_report(evidence: Evidence) -> FailureClass | None:
    found = read_report(evidence.report)
    return by_report(found) if found is not None and found.failed else None


def by_report(found: TestReport) -> FailureClass:
    """Return the kind of the failures in a test report."""
    detail = plain(f"{found.failed} of {found.tests} failed, first {found.first}: {found.message}", _DETAIL)
    focus = plain(f"run {found.first} alone and read its message", _DETAIL)
    return FailureClass("tests_failed", detail, focus, "test report in JUnit's form")


def _by_crash(evidence: Evidence) -> FailureClass | None:
    number = evidence.ended_by
    if number not in _CRASHES:
        return None
    explained = _by_rules(evidence, [rule for rule in RULES if rule.explains_crash])
    if explained is not None:
        return explained
    name = _signal_name(number or 0)
    focus = "look for the last thing it did; run it under a debugger"
    return FailureClass("crashed", quoted_line(evidence.tail), focus, f"ended by {name}")


def _by_rules(evidence: Evidence, rules: Sequence[FailureRule]) -> FailureClass | None:
    text = evidence.tail.encode("utf-8", "replace")
    command = evidence.command.encode("utf-8", "replace")
    for rule in rules:
        if rule.codes and evidence.exit_code not in rule.codes:
            continue
        if rule.command and not _expression(rule.command).search(command):
            continue
        match = _match(rule, text)
        if match is not None:
            line, what = match
            focus = plain(rule.focus.replace("{what}", what or line), _DETAIL)
            seen = f"rule '{rule.name}'" + (f", exit code {evidence.exit_code}" if evidence.exit_code else "")
            return FailureClass(rule.failure_type, line, focus, seen)
    return None


def _match(rule: FailureRule, text: bytes) -> tuple[str, str] | None:
    """Return the line of the match that counts, and the part that the rule names."""
    found: Any = None
    for match in _expression(f"(?m){_numbered(rule.pattern)}").finditer(text):
        found = match
        if not rule.last:
            break
    if found is None:
        return None
    number = next((number for number, group in enumerate(found.groups(), start=1) if group), 0)
    # The line with the group: a match may begin in a line before it.
    at = found.start(number)
    start = text.rfind(b"\n", 0, at) + 1
    end = text.find(b"\n", at)
    line = text[start : len(text) if end < 0 else end]
    return _shown(line), _shown(found[number] if number else b"")


def _numbered(pattern: str) -> str:
    # RE2 allows a group's name once; the alternatives of a rule share theirs.
    return pattern.replace("(?P<what>", "(")


def _by_end(evidence: Evidence) -> FailureClass:
    last, number, code = last_line(evidence.tail), evidence.ended_by, evidence.exit_code
    if number == signal.SIGINT:
        return FailureClass(
            "interrupted", last, "it was interrupted on purpose; run it again", "ended by SIGINT"
        )
    if code == 124:  # timeout(1)
        focus = "find its last action; then give it more time, or less work"
        return FailureClass("timeout", last, focus, "exit code 124, as of timeout(1)")
    if number is not None:
        focus = "find out who ended it: `holdfast events`"
        return FailureClass("killed", last, focus, f"ended by {_signal_name(number)}")
    named = {126: ("permission_denied", "make it executable, or run it by its interpreter")}
    named[127] = ("command_not_found", "install the program, or correct its name or PATH")
    if code in named:
        kind, focus = named[code]
        return FailureClass(kind, quoted_line(evidence.tail), focus, f"exit code {code}, as shells report it")
    focus = "read its output around this line; no rule recognizes it"
    return FailureClass("unknown", quoted_line(evidence.tail), focus, f"exit code {code}")


def _shown(line: bytes) -> str:
    return plain(line.decode("utf-8", "replace"), _DETAIL).strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def report_failure(report: bytes | None, path: str) -> FailureClass | None:
    """Return why a report does not let a verification pass; None if it does.

    Args:
        report: its content; None if the verification did not write it.
        path: where it was to be written.
    """
    where = plain(path, 100)
    if report is None:
        focus = "let the verification write it, for instance with `pytest --junitxml=PATH`"
        return FailureClass("report_missing", where, focus, f"the verification did not write {where}")
    found = read_report(report)
    if found is None:
        focus = f"write it in JUnit's form, in UTF-8, without a DOCTYPE, in at most {MOST_REPORT >> 20} MiB"
        return FailureClass("report_unreadable", where, focus, f"{where} is not a report in JUnit's form")
    if not found.tests:
        focus = "look at which tests the command selects"
        return FailureClass("no_tests", where, focus, f"{where} does not contain tests")
    return by_report(found) if found.failed else None
