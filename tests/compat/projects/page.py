"""The page `docs/compat.md`, made of the results. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.projects import catalog
from tests.compat.projects.outcome import Outcome
from tests.compat.wording import cell

FILE = Path(__file__).parents[3] / "docs" / "compat.md"
MOST = 12

_HEAD = (Path(__file__).parent / "page.head.md").read_text(encoding="utf-8")
_COLUMNS = ("project", "version", "what is run", "cases", "files", "s", "snapshots", "copies", "differences")


def of(rows: Sequence[Outcome]) -> str:
    """Return the page of these results and the declared projects."""
    ran = {one.name for one in rows}
    left = [project.name for project in catalog.PROJECTS if project.name not in ran]
    return page(rows, catalog.KNOWN, left)


def page(rows: Sequence[Outcome], known: Mapping[str, str], left: Sequence[str]) -> str:
    """Return the whole page in Markdown.

    `known` has the reasons of differences, by project; `left` are projects without a result.
    """
    lines = [*_HEAD.strip().splitlines(), "", "## Table", "", counts(rows), ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    lines += [_row(one) for one in rows]
    if left:
        lines += ["", f"Declared, and not run here yet: {', '.join(left)}."]
    lines += ["", "## What was seen", "", *(_notes(one, known.get(one.name, "")) for one in rows)]
    return "\n".join(lines) + "\n"


def counts(rows: Sequence[Outcome]) -> str:
    """Return the sums, in words."""
    good, lost = sum(one.good for one in rows), sum(bool(one.error) for one in rows)
    return (
        f"{len(rows)} projects with {sum(one.cases for one in rows):,} cases and"
        f" {sum(one.files for one in rows):,} files, {sum(one.taken for one in rows)} snapshots,"
        f" {sum(one.copies for one in rows)} copies that ran to the end: nothing differs in {good},"
        f" something in {len(rows) - good - lost}, {lost} could not be tried to the end."
    )


def _row(one: Outcome) -> str:
    if one.error:
        found = "**not tried to the end**"
    else:
        found = f"**{len(one.differences)}**" if one.differences else "none"
    cells = [one.name, one.version, one.does, one.cases or "–", one.files or "–", f"{one.seconds:.0f}"]
    return f"| {' | '.join(cell(str(value)) for value in [*cells, one.taken, one.copies, found])} |"


def _notes(one: Outcome, known: str) -> str:
    """Return the notes that do not fit a row: errors, differences, refusals, nondeterminism."""
    notes = [f"not tried to the end: {one.error}"] if one.error else []
    notes += [f"differs: {line}" for line in one.differences[:MOST]]
    if len(one.differences) > MOST:
        notes.append(f"{len(one.differences) - MOST} more differences")
    if known and one.differences:
        notes.append(f"the reason: {known}")
    notes += [
        f"a case in the copy of {found.after:.1f} s took {took} s by the time of day;"
        f" the snapshot had waited for at least {found.waited} s"
        for found in one.captures
        for took in found.measured
    ]
    notes += [f"refused at {found.after:.1f} s: {found.refused}" for found in one.captures if found.refused]
    if one.failing:
        notes.append(f"{one.failing} cases fail in all runs, plain ones as well")
    ended = one.missed + sum(found.late for found in one.captures)
    if ended:
        notes.append(f"the command had ended at {ended} of the moments drawn")
    if one.unsteady:
        named = ", ".join(f"`{cell(name)}`" for name in one.unsteady[:MOST])
        more = f" and {len(one.unsteady) - MOST} more" if len(one.unsteady) > MOST else ""
        notes.append(f"not the same in plain runs, and left out: {named}{more}")
    drawn = ", ".join(f"{found.after:.1f} s" for found in one.captures if not (found.refused or found.late))
    ran = ", ".join(f"{name} {value}" for name, value in one.about.items())
    notes.append(f"seed {one.seed}, snapshots at {drawn or 'no moment'}; {ran}")
    return f"- **{one.name}**: " + "; ".join(cell(note) for note in notes) + "."
