"""The figures of an interrupted job, as `docs/task.md` has them. All but writing is pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.interrupted.interruptions import Interruption
from tests.interrupted.trial import Played

PAGE = Path(__file__).parents[2] / "docs" / "task.md"
BEGIN, END = "<!-- written by a run of the long test with HOLDFAST_WRITE=1 -->", "<!-- end of the figures -->"


def table(
    seed: int,
    drawn: Sequence[Interruption],
    plain: Played,
    interrupted: Played,
    starts: Counter[str],
    wrong: tuple[int, int],
) -> str:
    """Return the figures as Markdown.

    Args:
        seed: of the interruptions.
        drawn: the interruptions.
        plain: what happened without them.
        interrupted: what happened with them.
        starts: how often the work of each step was started.
        wrong: effects that are there twice or not at all, without the interruptions and with them.
    """
    kinds = Counter(each.kind for each in drawn)
    again = sum(count - 1 for count in starts.values())
    rows = [
        ("steps", str(len(starts)), str(len(starts))),
        ("workers", str(plain.workers), str(interrupted.workers)),
        ("killed", "none", ", ".join(f"{kinds[kind]} × {kind}" for kind in sorted(kinds))),
        ("work started again after its effects were undone", "0", str(again)),
        ("effects that are there twice, or not at all", *map(str, wrong)),
    ]
    moments = ", ".join(f"{each.kind} in `{each.at[0]}` of {each.at[1]}" for each in drawn)
    lines = ["| | uninterrupted | interrupted |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", f"Seed {seed}: {moments}."])


def replaced(text: str, figures: str) -> str:
    """Return the page with these figures.

    Raises:
        ValueError: it lacks the marks.
    """
    head, _, rest = text.partition(BEGIN)
    _, found, tail = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE} lacks the marks of the figures")
    return f"{head}{BEGIN}\n{figures}\n{END}{tail}"


def write(figures: str) -> None:
    """Write the figures to the page."""
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
