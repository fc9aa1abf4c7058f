"""The page `docs/programs.md`, made from the outcomes of the programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from tests.compat.programs.outcome import STEPS, Outcome
from tests.compat.wording import cell

from holdfast.base.text import plain

FILE = Path(__file__).parents[3] / "docs" / "programs.md"

_HEAD = (Path(__file__).parent / "page.head.md").read_text(encoding="utf-8")
_SHOWN = STEPS[1:]


def counts(found: Sequence[Outcome]) -> str:
    """Return how many there are of which kind, in words."""
    number = {word: sum(one.word == word for one in found) for word in ("works", "refused", "red")}
    return (
        f"{len(found)} programs: {number['works']} work, {number['refused']} are refused by name,"
        f" {number['red']} are red."
    )


def page(found: Sequence[Outcome], day: date, versions: Mapping[str, str]) -> str:
    """Return the whole page in Markdown."""
    made = ", ".join(f"{name} {plain(version, 60)}" for name, version in versions.items())
    lines = [*_HEAD.strip().splitlines(), "", "## Table", "", counts(found)]
    lines += [f"Run on {day.isoformat()}: {made}.", ""]
    lines.append("| program | | captured | restored | forked | verified | result | what it said |")
    lines.append("|---|---|---|---|---|---|---|---|")
    for one in found:
        marks = " | ".join("yes" if step in one.passed else "–" for step in _SHOWN)
        word = one.word if one.word == "works" else f"**{one.word}**"
        lines.append(f"| {one.program} | {cell(one.does)} | {marks} | {word} | {cell(one.reason)} |")
    return "\n".join(lines) + "\n"
