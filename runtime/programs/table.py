"""The table of programs: for a terminal, and as the page `docs/programs.md`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from holdfast.base.text import plain
from holdfast.runtime.programs.outcome import STEPS, Outcome
from holdfast.runtime.programs.program import Program

HEADINGS = ("RESULT", "PROGRAM", "CAPTURED", "RESTORED", "FORKED", "VERIFIED", "")
_SHOWN = STEPS[1:]

_HEAD = """
# Programs

Can a program be captured in the middle of its work, and does it go on? This page is written by
`holdfast doctor --programs --markdown docs/programs.md`, which anybody can run; `--only NAME,...` tries some,
`--list` tells what there is.

Each program is started in a session and brought to the middle of its work. The session is captured live,
restored once, and forked three ways. In each of the four copies, and in the captured session itself, the
program then has to go on, and its own check says whether it does: counters and sums that continue, answers
over connections that were open, a transaction that is committed afterwards, a build that ends with the right
result. The check asks the process that was captured, never a new one.

- **works**: captured, restored, forked, and right in all five sessions.
- **refused**: it cannot be captured, or not be run in a session at all, and that is said in advance and by
  name. The session goes on.
- **red**: neither; the reason is given.

Several programs are in one session, with one capture, where they get along; the checks are the same. Packages
beyond the session image are in images of their own (`holdfast/programs:…`), built when a program that needs
them is tried; `docker rmi` frees the space.
"""


def counts(found: Sequence[Outcome]) -> str:
    """How many of which, in words."""
    number = {word: sum(one.word == word for one in found) for word in ("works", "refused", "red")}
    return (
        f"{len(found)} programs: {number['works']} work, {number['refused']} are refused by name,"
        f" {number['red']} are red."
    )


def rows(found: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """Rows for a terminal, under `HEADINGS`."""
    return [
        (one.word, one.program, *("yes" if step in one.passed else "-" for step in _SHOWN), _short(one))
        for one in found
    ]


def listed(programs: Iterable[Program]) -> list[tuple[str, ...]]:
    """What there is: name, family, what it needs, what it does."""
    return [(one.name, one.family, one.stack or "-", one.does) for one in programs]


def page(found: Sequence[Outcome], day: date, versions: Mapping[str, str]) -> str:
    """The whole page in Markdown."""
    made = ", ".join(f"{name} {plain(version, 60)}" for name, version in versions.items())
    lines = [
        *_HEAD.strip().splitlines(),
        "",
        "## Table",
        "",
        counts(found),
        f"Run on {day.isoformat()}: {made}.",
    ]
    lines += ["", "| program | | captured | restored | forked | verified | result | what it said |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for one in found:
        marks = " | ".join("yes" if step in one.passed else "–" for step in _SHOWN)
        word = one.word if one.word == "works" else f"**{one.word}**"
        lines.append(f"| {one.program} | {_cell(one.does)} | {marks} | {word} | {_cell(one.reason)} |")
    return "\n".join(lines) + "\n"


def _short(one: Outcome) -> str:
    return plain(one.reason, 160)


def _cell(text: str) -> str:
    safe = plain(text, 300).replace("\\", "\\\\").replace("|", "\\|")
    return safe.replace("<", "&lt;").replace("`", "'") if "<" in safe else safe
