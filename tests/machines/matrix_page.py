"""The table of `docs/machines.md`, made of the results, between two marks. All but `record` is pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.compat.wording import cell
from tests.machines import matrix_results
from tests.machines.cells import CELLS, VIRTUAL
from tests.machines.matrix_results import Row
from tests.machines.scenario import VERBS, Step

FILE = Path(__file__).parents[2] / "docs" / "machines.md"
BEGIN, END = "<!-- written by `make test-machines WRITE=1` -->", "<!-- end of the table -->"
NAMES = [*(cell.name for cell in CELLS), *(f"vm-{suite}" for suite in VIRTUAL)]
"""Names of rows, in the order of the table."""
_PARTS = ("containerd", "runc", "kernel", "cgroup")


def record(row: Row) -> None:
    """Write a row to the results and to the page, if that was asked for: `make test-machines WRITE=1`."""
    if os.environ.get("HOLDFAST_WRITE"):
        rows = matrix_results.merged(matrix_results.load(), row, NAMES)
        matrix_results.save(rows)
        FILE.write_text(of(FILE.read_text(encoding="utf-8"), rows), encoding="utf-8")


def of(text: str, rows: Sequence[Row]) -> str:
    """Return the page with the table of these results in place of its present table."""
    head, found, rest = text.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (found and ended):
        raise ValueError("the page lacks the marks of the table")
    return f"{head}{BEGIN}\n\n{table(rows)}\n{END}{tail}"


def table(rows: Sequence[Row]) -> str:
    """Return both tables, and the reason of everything in them that is not plainly ok."""
    lines = [counts(rows), "", *_verbs(rows), "", "Versions:", "", *_versions(rows)]
    notes = [note for row in rows for note in _notes(row)]
    return "\n".join([*lines, *(["", "Notes:", "", *notes] if notes else []), ""])


def counts(rows: Sequence[Row]) -> str:
    """Return the sums, in words."""
    failed = sum(any(step.result == "failed" for step in row.steps) for row in rows)
    refused = sum(any(step.result == "refused" for step in row.steps) for row in rows)
    works = len(rows) - failed - refused
    return f"{len(rows)} cells: everything works in {works}, {refused} are refused, {failed} have a failure."


def _verbs(rows: Sequence[Row]) -> Iterator[str]:
    yield f"| engine | user | {' | '.join(VERBS)} |"
    yield f"|{'---|' * (len(VERBS) + 2)}"
    for row in rows:
        found = {step.verb: step for step in row.steps}
        results = [_shown(found.get(verb, Step(verb, "not run"))) for verb in VERBS]
        yield f"| {' | '.join([cell(row.engine), cell(row.user), *results])} |"


def _shown(step: Step) -> str:
    if step.result == "not run":
        return "–"
    if step.result == "failed":
        return "**failed**"
    if step.verb == "snapshot" and step.note:
        return cell(step.note.partition(";")[0])
    return step.result


def _versions(rows: Sequence[Row]) -> Iterator[str]:
    yield f"| engine | {' | '.join(_PARTS)} |"
    yield f"|{'---|' * (len(_PARTS) + 1)}"
    seen = dict.fromkeys((row.engine, tuple(row.versions.get(part, "") for part in _PARTS)) for row in rows)
    for engine, parts in seen:
        yield f"| {cell(engine)} | {' | '.join(cell(part) or '–' for part in parts)} |"


def _notes(row: Row) -> Iterator[str]:
    refused = [step for step in row.steps if step.result == "refused"]
    for step in row.steps:
        if step in refused[:-1]:  # for the same reason
            continue
        plain = step.result == "ok" and (not step.note or "commit" not in step.note)
        if step.result != "not run" and not plain:
            yield f"- {cell(row.engine)}, {row.user}: {step.verb}: {cell(step.note)}"
