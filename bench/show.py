"""Figures as text for people, and the table at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bench.row import Row
from bench.stats import Target, Unit

_STYLES = {"pass": "green", "miss": "bold red", "-": "dim"}


def figure(value: float | None, unit: Unit) -> str:
    """Return a value with three digits and a suitable unit."""
    if value is None:
        return "-"
    if unit == "count":
        return f"{value:g}"
    if unit == "bytes":
        return _scaled(value, ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")))
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")))


def limit(target: Target | None, unit: Unit) -> str:
    """Return a target as text."""
    if target is None:
        return ""
    return f"≤ {target.limit:g} ×" if target.kind == "ratio" else f"≤ {figure(target.limit, unit)}"


def ratio(row: Row) -> str:
    """Return a row's multiple of its baseline."""
    return "" if row.ratio is None else f"{row.ratio:.3g} ×"


def title(row: Row) -> str:
    """Return the title of a row's measurement."""
    statistic = {"median": "", "p95": ", p95", "p99": ", p99", "sum": ""}[row.statistic]
    return f"{row.name}{f', {row.group}' if row.group else ''}{statistic}"


def baseline(row: Row) -> str:
    """Return the name of a row's baseline."""
    if row.baseline is None:
        return ""
    return f"{figure(row.baseline_value, row.baseline.unit)}  {row.baseline.who}"


def value(row: Row) -> str:
    """Return the figure of a row with its number of samples; for a count, how many of how many."""
    if row.subject.unit == "count" and row.statistic == "sum":
        return f"{figure(row.value, 'count')} of {len(row.subject.samples)}"
    return figure(row.value, row.subject.unit)


def table(rows: Sequence[Row]) -> Table:
    """Return all rows, with a rule between families."""
    made = Table(
        title="Holdfast, measured", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    made.add_column("what")
    made.add_column("who")
    made.add_column("figure", justify="right", no_wrap=True)
    made.add_column("over")
    made.add_column("ratio", justify="right", no_wrap=True)
    made.add_column("target", no_wrap=True)
    made.add_column("", no_wrap=True)
    family = ""
    for row in rows:
        if row.family != family:
            made.add_section()
            made.add_row(Text(row.family, style="bold"))
            family = row.family
        if row.skipped:
            made.add_row(
                title(row),
                row.subject.who,
                Text("skipped", style="yellow"),
                Text(row.skipped, style="yellow"),
            )
            continue
        made.add_row(
            title(row),
            row.subject.who,
            value(row),
            baseline(row),
            ratio(row),
            limit(row.target, row.subject.unit),
            Text(row.verdict, style=_STYLES[row.verdict]) if row.target else "",
        )
    return made


def _scaled(value: float, scales: Sequence[tuple[float, str]]) -> str:
    size, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    scaled = value / size
    digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:.{digits}f} {name}"
