"""One line of the result, and the result as a whole, as JSON.

Pure.  `VERSION` counts the shapes this JSON has had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.stats import Series, Target, Unit, Verdict, judge

VERSION = 1
Statistic = Literal["median", "p95", "p99", "sum"]


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement, its baseline, and its target.

    `group` distinguishes rows of one kind that differ in size ("1 GiB").  A row with `skipped` has no figures
    and says why.
    """

    family: str
    name: str
    subject: Series
    group: str = ""
    statistic: Statistic = "median"
    baseline: Series | None = None
    target: Target | None = None
    note: str = ""
    skipped: str = ""

    @property
    def value(self) -> float | None:
        """The figure of the subject."""
        return _figure(self.subject, self.statistic)

    @property
    def baseline_value(self) -> float | None:
        """The same figure of the baseline."""
        return None if self.baseline is None else _figure(self.baseline, self.statistic)

    @property
    def ratio(self) -> float | None:
        """Subject over baseline, measured in the same run."""
        value, baseline = self.value, self.baseline_value
        return value / baseline if value is not None and baseline else None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the target."""
        return "-" if self.value is None else judge(self.value, self.baseline_value, self.target)


def skipped(family: str, name: str, who: str, why: str, unit: Unit = "s", group: str = "") -> Row:
    """Return a row that could not be measured."""
    return Row(family, name, Series(who, unit, ()), group=group, skipped=why)


def dump(rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole result, ready for `json.dumps`."""
    return {"version": VERSION, "about": dict(about), "rows": [_row(row) for row in rows]}


def load(result: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a result that `dump` made.

    Raises:
        ValueError: its version is different.
    """
    if result.get("version") != VERSION:
        raise ValueError(f"cannot read this result: it is of version {result.get('version')}, not {VERSION}")
    return [
        Row(
            family=raw["family"],
            name=raw["name"],
            subject=_read_series(raw["subject"]),
            group=raw["group"],
            statistic=raw["statistic"],
            baseline=_read_series(raw["baseline"]) if raw["baseline"] else None,
            target=Target(**raw["target"]) if raw["target"] else None,
            note=raw["note"],
            skipped=raw["skipped"],
        )
        for raw in result["rows"]
    ]


def _figure(series: Series, statistic: Statistic) -> float | None:
    if not series.samples:
        return None
    if statistic == "sum":
        return sum(series.samples)
    return series.at({"median": 0.5, "p95": 0.95, "p99": 0.99}[statistic])


def _row(row: Row) -> dict[str, Any]:
    return {
        "family": row.family,
        "name": row.name,
        "group": row.group,
        "statistic": row.statistic,
        "value": row.value,
        "baseline_value": row.baseline_value,
        "ratio": row.ratio,
        "verdict": row.verdict,
        "subject": _series(row.subject),
        "baseline": _series(row.baseline) if row.baseline else None,
        "target": {"limit": row.target.limit, "kind": row.target.kind, "why": row.target.why}
        if row.target
        else None,
        "note": row.note,
        "skipped": row.skipped,
    }


def _series(series: Series) -> dict[str, Any]:
    made: dict[str, Any] = {"who": series.who, "unit": series.unit, "n": len(series.samples)}
    if series.samples:
        shares = {"p01": 0.01, "p50": 0.5, "p99": 0.99}
        made |= {name: series.at(share) for name, share in shares.items()}
    return {**made, "samples": [round(sample, 7) for sample in series.samples]}


def _read_series(raw: Mapping[str, Any]) -> Series:
    return Series(raw["who"], raw["unit"], tuple(raw["samples"]))
