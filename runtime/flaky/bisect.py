"""Finds the first snapshot of a chain in which a command fails, by trying it in copies of ever fewer.

The chain and the search are pure; `repeat` does the trying.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.flaky.repeat import Series, retry
from holdfast.runtime.history.lineage.overview import Ran, overview

if TYPE_CHECKING:
    from holdfast.runtime.flaky.spread import Spread
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


@dataclass(frozen=True, slots=True)
class Bisected:
    """The result: the command fails in `bad`, but not in `good`, the snapshot before it.

    `ran` are the commands between them; `tried` the results by the names of the snapshots, in order.
    """

    good: SnapshotRow
    bad: SnapshotRow
    ran: Ran
    tried: tuple[tuple[str, Spread], ...]

    @property
    def text(self) -> str:
        """The result in one line."""
        between = self.ran.text or "no journal entries"
        return f"first fails in {self.bad.name}, passes in {self.good.name}; between them: {between}"

    def as_dict(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "good": self.good.name,
            "bad": self.bad.name,
            "between": self.ran.as_dict(),
            "tried": [{"snapshot": name, **spread.as_dict()} for name, spread in self.tried],
        }


def bisect(
    context: Context,
    good: SnapshotRow,
    bad: SnapshotRow,
    series: Series,
    report: Callable[[str, Spread], None] = lambda _name, _spread: None,
) -> Bisected:
    """Search between two snapshots; one fails if any of the runs in it does.

    Raises:
        InvalidArgument: `good` does not precede `bad` or already fails, or `bad` does not fail.
        LiveUnsupported, RestoreFailed, SnapshotDamaged: one of them cannot be tried.
    """
    seen = overview(context)
    line = chain(seen.snapshots, seen.above, good, bad)
    tried: list[tuple[str, Spread]] = []

    def fails(row: SnapshotRow) -> bool:
        spread = retry(context, row, replace(series, keep="none", until_differs=False))
        tried.append((row.name, spread))
        report(row.name, spread)
        return not all(run.passed for run in spread.runs)

    if fails(line[0]):
        raise InvalidArgument(
            f"cannot bisect: the command already fails in {line[0].name} ({tried[-1][1].text})",
            hint="begin with an earlier snapshot",
        )
    if not fails(line[-1]):
        raise InvalidArgument(
            f"cannot bisect: the command does not fail in {line[-1].name} ({tried[-1][1].text})",
            hint="if it fails only sometimes, try it more often: -n 10",
        )
    at = search(len(line), lambda number: fails(line[number]))
    return Bisected(line[at - 1], line[at], seen.ran.get(line[at].id, Ran()), tuple(tried))


def chain(
    snapshots: Sequence[SnapshotRow], above: Any, good: SnapshotRow, bad: SnapshotRow
) -> list[SnapshotRow]:
    """Return the snapshots from `good` to `bad`, each followed by its child.

    Raises:
        InvalidArgument: `bad` does not descend from `good`.
    """
    known = {row.id: row for row in snapshots}
    found, at, seen = [bad], bad.id, {bad.id}
    while at != good.id:
        up = above.get(at)
        if up is None or up in seen or up not in known:
            raise InvalidArgument(
                f"cannot bisect: {bad.name} does not come after {good.name}",
                hint="`holdfast snapshots --tree` shows their order",
            )
        seen.add(up)
        found.append(known[up])
        at = up
    if len(found) < 2:
        raise InvalidArgument("cannot bisect: these are the same snapshot")
    return found[::-1]


def search(count: int, fails: Callable[[int], bool]) -> int:
    """Return the first number that fails, given that 0 does not and `count - 1` does."""
    low, high = 0, count - 1
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high
