"""The summary of a job for people, as Markdown. Pure.

Output of programs is shown in fences that nothing in it can close, and elsewhere with its markup escaped, so
that it can neither draw or link anything nor mention people. It is bounded: CI systems refuse summaries of
more than a megabyte.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.base.text import plain
from holdfast.snapshots.failure import Failure

TAIL_LINES = 60
MOST_KEPT = 50
MOST = 200_000
_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~])")
# What GitHub and GitLab make links of in plain text, escaped or not: addresses, people, issues, labels and
# the like (GitHub's "Autolinked references and URLs", GitLab's "GitLab-specific references"). They look at
# one piece of text at a time, so it is enough to have this character in an element of its own.
_LIVE = re.compile(
    r"(@|:(?=//)|(?<=www)\.|[#!~$%&^](?=[\w\"])|(?<=gh)-(?=\d)"
    r"|\*(?=iteration:)|\[(?=[a-z_]+:))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class KeptCapture:
    """One capture: its failure, how to thaw it, its size in bytes, its kind."""

    title: str
    thaw: str
    size: int | None = None
    kind: str = "live"


@dataclass(frozen=True, slots=True)
class Summary:
    """The contents of the summary of a failed job.

    `not_kept` is the reason for a missing snapshot, or one of the wrong kind; `notes` are for readers of
    the summary.
    """

    failure: Failure
    exit_code: int
    seconds: float
    kept: tuple[KeptCapture, ...] = ()
    not_kept: str = ""
    notes: tuple[str, ...] = field(default=())

    def markdown(self) -> str:
        """Return the whole summary."""
        text = "\n".join(self._lines())
        return text if len(text) <= MOST else text[:MOST] + "\n\n…\n"

    def _lines(self) -> Iterator[str]:
        record = self.failure
        yield f"## {words(record.title)}"
        yield ""
        yield "| | |"
        yield "|---|---|"
        rows = (
            ("command", code(record.command)),
            ("where", code(record.where or "")),
            ("what", words(record.message)),
            ("exit code", str(self.exit_code)),
            ("ran for", f"{self.seconds:.0f} s"),
            ("revision", words(record.revision or "")),
            ("job", words(record.job or "")),
        )
        yield from (f"| {name} | {value} |" for name, value in rows if value)
        yield ""
        yield from self._thaw()
        yield from (f"{words(note)}\n" for note in self.notes)
        if record.pulse:
            yield from ["### What happened", "", *fenced(record.pulse.splitlines()), ""]
        if record.tail.strip():
            lines = record.tail.rstrip().splitlines()
            yield from ["<details open><summary>The end of the output</summary>", ""]
            yield from [*fenced(lines[-TAIL_LINES:]), "", "</details>", ""]

    def _thaw(self) -> Iterator[str]:
        if self.not_kept:
            yield from [f"**Not captured alive:** {words(self.not_kept)}", ""]
        if len(self.kept) == 1:
            only = self.kept[0]
            yield from [f"### Thaw it{_about(only)}", "", *fenced([only.thaw], "sh"), ""]
        elif self.kept:
            yield from ["### Thaw it", "", "| what | thaw it with | |", "|---|---|---|"]
            for each in self.kept[:MOST_KEPT]:
                yield f"| {words(each.title)} | {code(each.thaw)} | {_about(each).strip(' ()')} |"
            if len(self.kept) > MOST_KEPT:
                yield f"| and {len(self.kept) - MOST_KEPT} more | | |"
            yield ""


def words(text: str) -> str:
    """Return text in one line, without active Markdown or HTML."""
    return _dead(plain(text, 500), lambda part: _MARKS.sub(r"\\\1", part))


def code(text: str) -> str:
    """Return text as code within a line or a cell of a table."""
    shown = plain(text, 500)
    if not shown:
        return ""
    # HTML instead of backticks: a cell of a table ends at a bar, also within code.
    escaped = _dead(shown, lambda part: _MARKS.sub(lambda found: f"&#{ord(found[1])};", part))
    return f"<code>{escaped}</code>"


def _dead(text: str, escape: Callable[[str], str]) -> str:
    parts = [escape(html.escape(part, quote=False)) for part in _LIVE.split(text)]
    return "".join(f"<span>{part}</span>" if n % 2 else part for n, part in enumerate(parts))


def fenced(lines: Sequence[str], language: str = "") -> list[str]:
    """Return lines as a block of code."""
    text = "\n".join(lines)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", text, fence]


def _about(kept: KeptCapture) -> str:
    parts = [] if kept.kind == "live" else ["files only"]
    parts += [f"{kept.size / 1e6:.3g} MB"] if kept.size is not None else []
    return f" ({', '.join(parts)})" if parts else ""
