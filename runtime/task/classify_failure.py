"""Classifies a failure by its evidence, with the decisive line and where to look next.  Pure.

The way it ended counts before its output: a killed process cannot lie about memory, and a question on the
terminal is not a guess. Programs can print anything, so a kind is advice, never a permission.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.scrubbing.rule import compiled
from holdfast.runtime.task.failure_evidence import Evidence, TestReport, read_report
from holdfast.runtime.task.failure_rule import FailureRule
from holdfast.runtime.task.failure_rules import RULES
from holdfast.runtime.task.quoted_line import LONGEST, last_line, quoted_line

_DETAIL = LONGEST
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True)
class FailureClass:
    """The kind of a failure, its detail, where to look next; and the line that was `seen`, by which rule."""

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
        focus = "use less memory at once, or raise the session's memory limit"
        return FailureClass("out_of_memory", last, focus, "event oom: the session's memory limit was reached")
    if "kernel_died" in evidence.events:
        focus = "find the cell that ended the kernel's process; its variables are gone"
        return FailureClass("kernel_died", last, focus, "event kernel_died")
    if evidence.waiting:
        focus = "answer it with `holdfast send`, or run it so that it does not ask"
        return FailureClass("waiting_for_input", last, focus, f"it waits for input: {evidence.waiting}")
    if evidence.timed_out:
        focus = "find what it did last; then give it more time, or less work"
        return FailureClass("timeout", last, focus, "its time limit was reached")
    return None


def _by_report(evidence: Evidence) -> FailureClass | None:
    found = read_report(evidence.report)
    return by_report(found) if found is not None and found.failed else None


def by_report(found: TestReport) -> FailureClass:
    """Return the kind of the failures that a test report has."""
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


@lru_cache(maxsize=512)
def _expression(pattern: str) -> Any:
    return compiled(pattern.encode())


def _by_end(evidence: Evidence) -> FailureClass:
    last, number, code = last_line(evidence.tail), evidence.ended_by, evidence.exit_code
    if number == signal.SIGINT:
        return FailureClass(
            "interrupted", last, "it was interrupted on purpose; run it again", "ended by SIGINT"
        )
    if code == 124:  # timeout(1)
        focus = "find what it did last; then give it more time, or less work"
        return FailureClass("timeout", last, focus, "exit code 124, as of timeout(1)")
    if number is not None:
        focus = "find out who ended it: `holdfast events`"
        return FailureClass("killed", last, focus, f"ended by {_signal_name(number)}")
    named = {126: ("permission_denied", "make it executable, or run it by its interpreter")}
    named[127] = ("command_not_found", "install the program, or correct its name or PATH")
    if code in named:
        kind, focus = named[code]
        return FailureClass(kind, quoted_line(evidence.tail), focus, f"exit code {code}, as shells give it")
    focus = "read its output around this line; no rule recognizes it"
    return FailureClass("unknown", quoted_line(evidence.tail), focus, f"exit code {code}")


def _shown(line: bytes) -> str:
    return plain(line.decode("utf-8", "replace"), _DETAIL).strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
