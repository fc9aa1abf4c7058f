"""The result as a picture: a line for each row on a logarithmic scale, ours and theirs in different colors.

Pure: rows in, SVG out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bench import show
from bench.row import Row
from bench.stats import Series

WIDTH = 980
LEFT = 330
RIGHT = 110
LINE = 24
TOP = 64
BOTTOM = 46
OURS, THEIRS, LIMIT = "#2563eb", "#94a3b8", "#dc2626"
STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;font-size:12px;fill:#334155}"
    ".head{font-weight:600;fill:#0f172a}.title{font-size:16px;font-weight:600;fill:#0f172a}"
    ".small{font-size:11px;fill:#64748b}.grid{stroke:#e2e8f0;stroke-width:1}"
)


def svg(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """Return a picture of all rows that are times."""
    lines = _lines(rows)
    if not lines:
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{TOP}"></svg>\n'
    values = [sample for line in lines if line.series for sample in _whisker(line.series)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = _Scale(low, max(high, low + 1))
    height = TOP + LINE * len(lines) + BOTTOM
    body = [_axis(scale, height)]
    for number, line in enumerate(lines):
        body.append(line.draw(TOP + LINE * number + LINE // 2, scale))
    facts = (
        f"median with 5th to 95th percentile, one run; {about.get('cpus')} × {about.get('cpu')}, "
        f"Linux {about.get('kernel')}, Docker {about.get('engine')}; red: target"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text class="title" x="16" y="26">Holdfast and others, seconds on a logarithmic scale</text>'
        f'<text class="small" x="16" y="44">{escape(facts)}</text>{"".join(body)}</svg>\n'
    )


class _Scale:
    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def x(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


class _Line:
    """A heading, or one series with its target if there is one."""

    def __init__(
        self, text: str, series: Series | None = None, *, ours: bool = False, limit: float | None = None
    ):
        self.text, self.series, self.ours, self.limit = text, series, ours, limit

    def draw(self, y: int, scale: _Scale) -> str:
        if self.series is None:
            return f'<text class="head" x="16" y="{y + 8}">{escape(self.text)}</text>'
        colour = OURS if self.ours else THEIRS
        start, end = (scale.x(value) for value in _whisker(self.series))
        middle = scale.x(self.series.median)
        limit = scale.x(self.limit) if self.limit else None
        # The figure stands to the right of everything else, including the target's mark if it is near.
        label = max(end, middle) + 10
        if limit is not None and label - 10 < limit < label + 60:
            label = limit + 8
        made = [
            f'<text x="28" y="{y + 4}">{escape(self.text)}</text>',
            f'<line x1="{start}" x2="{end}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3" '
            f'stroke-opacity=".45"/>',
            f'<circle cx="{middle}" cy="{y}" r="5" fill="{colour}"/>',
            f'<text class="small" x="{label:.1f}" y="{y + 4}">'
            f"{escape(show.figure(self.series.median, self.series.unit))}</text>",
        ]
        if limit is not None:
            place = f'x1="{limit}" x2="{limit}" y1="{y - 8}" y2="{y + 8}"'
            made.append(f'<line {place} stroke="{LIMIT}" stroke-width="2"/>')
        return "".join(made)


def _lines(rows: Sequence[Row]) -> list[_Line]:
    lines: list[_Line] = []
    seen: set[tuple[str, str, str]] = set()
    heading = ""
    for row in rows:
        if row.skipped or row.subject.unit != "s" or row.statistic != "median":
            continue
        above = f"{row.family}, {row.group}" if row.group else row.family
        if above != heading:
            heading = above
            lines.append(_Line(above))
        ours = row.subject.who == "Holdfast"
        for series, mine in ((row.subject, ours), (row.baseline, False)):
            if series is None or not series.samples:
                continue
            name = f"{row.name}: {series.who}" if series is row.subject else series.who
            key = (above, name, series.who)
            if key in seen:
                continue
            seen.add(key)
            lines.append(_Line(name, series, ours=mine, limit=_limit(row) if mine else None))
    return lines


def _limit(row: Row) -> float | None:
    if row.target is None:
        return None
    if row.target.kind == "value":
        return row.target.limit
    return row.target.limit * row.baseline_value if row.baseline_value else None


def _whisker(series: Series) -> tuple[float, float]:
    return max(series.at(0.05), 1e-6), max(series.at(0.95), 1e-6)


def _axis(scale: _Scale, height: int) -> str:
    made = []
    for power in range(scale.low, scale.high + 1):
        x = scale.x(10.0**power)
        made.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{height - BOTTOM + 8}"/>')
        made.append(
            f'<text class="small" x="{x}" y="{height - 18}" text-anchor="middle">{mark(power)}</text>'
        )
    return "".join(made)


def mark(power: int) -> str:
    """Return the name of a power of ten seconds, for a scale."""
    return show.figure(10.0**power, "s").replace(".00", "").replace(".0", "")
