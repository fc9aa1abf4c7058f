"""Whether a test report lets a verification pass whose command exited with 0.  Pure.

A command can hide failures (`pytest || true`) or run no test at all; a report that it had to write cannot. It
comes from the session, and is read as `failure_evidence` reads it.
"""

from __future__ import annotations

from holdfast.base.text import plain
from holdfast.runtime.task.classify_failure import FailureClass, by_report
from holdfast.runtime.task.failure_evidence import MOST_REPORT, read_report


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
        return FailureClass("no_tests", where, focus, f"{where} has no test")
    return by_report(found) if found.failed else None
