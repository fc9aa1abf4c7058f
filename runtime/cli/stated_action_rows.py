"""Actions with their stated reasons, as `replay --why` shows them: a table, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from holdfast.base.text import plain
from holdfast.runtime.cli import printing
from holdfast.runtime.task.stated_actions import StatedAction

_MARKS = {"command": "$ ", "cell": ">>> ", "job": "job: ", "run": "run: "}
LONGEST = 80
"""Characters of an action or a reason in the table; JSON has all."""


def show(found: Sequence[StatedAction], *, as_json: bool) -> None:
    """Write them to standard output."""
    if as_json:
        printing.emit([{**asdict(each), "why": each.why, "outcome": each.outcome} for each in found])
    else:
        printing.table(("ENTRY", "AT", "BY", "ACTION", "WHY", "RESULT"), (_row(each) for each in found))


def _row(each: StatedAction) -> Sequence[str]:
    at = datetime.fromtimestamp(each.at, UTC).astimezone()
    key = f" [key {each.key}]" if each.key else ""
    text = plain(first_line(each) + key, LONGEST)
    return each.entry, f"{at:%m-%d %H:%M:%S}", each.actor, text, plain(each.why, LONGEST), _result(each)


def first_line(each: StatedAction) -> str:
    """Return an action as a line: the first of its text, marked by its kind."""
    head, _, rest = each.text.strip().partition("\n")
    return _MARKS.get(each.kind, "") + (f"{head} …" if rest or each.cut else head)


def _result(each: StatedAction) -> str:
    detail = f": {each.failure_detail}" if each.failure_detail else ""
    return plain(each.outcome + detail, LONGEST)
