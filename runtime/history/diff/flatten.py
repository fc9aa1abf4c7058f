"""Flattening of what each snapshot records into two tables of files that can be compared.  Pure.

A snapshot's table says how its container differed from the snapshot it was made from. Following these back,
two snapshots meet in a common ancestor, or in the plain image; from there on tables are laid over each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import (
    Change,
    FileChange,
    Key,
    PathEntry,
    Table,
    compare,
)


@dataclass(frozen=True, slots=True)
class Flat:
    """All differences from a common ancestor: files, the packages among them, and their versions."""

    table: Table
    keys: tuple[Key, ...] = ()
    versions: tuple[str, ...] = ()

    def known(self) -> dict[Key, str]:
        """Return versions by package, empty where a package has none."""
        return dict(zip(self.keys, self.versions, strict=True))


def common(first: Sequence[str | None], second: Sequence[str | None]) -> str | None:
    """Return where two lines meet. Each is a snapshot and its ancestors, ending with None or a gap.

    Raises:
        LookupError: they do not meet, because a snapshot in between is gone.
    """
    there = set(second)
    for one in first:
        if one in there:
            return one
    gaps = [line[-1] for line in (first, second) if line[-1] is not None]
    raise LookupError(gaps[0] if gaps else "")


def flatten(found: Iterable[Baseline]) -> Flat:
    """Lay the tables of a line over each other, oldest first."""
    table: dict[str, PathEntry] = {}
    numbers: dict[Key, int] = {}
    versions: list[str] = []
    for baseline in found:
        for key, version in zip(baseline.keys, baseline.versions, strict=True):
            if key not in numbers:
                numbers[key] = len(versions)
                versions.append("")
            versions[numbers[key]] = version
        gone = {path for path, entry in baseline.table.items() if entry.change == "deleted"}
        if gone:
            table = {path: entry for path, entry in table.items() if not _below(path, gone)}
        for path, entry in baseline.table.items():
            owner = numbers[baseline.keys[entry.owner]] if 0 <= entry.owner < len(baseline.keys) else -1
            change = _change(table.get(path), entry.change)
            if change is None:
                del table[path]
            else:
                table[path] = replace(entry, change=change, owner=owner)
    return Flat(table, tuple(numbers), tuple(versions))


def differences(before: Flat, after: Flat) -> dict[str, FileChange]:
    """Return how the second differs from the first, both relative to the same ancestor."""
    now = dict(after.table)
    for path, entry in before.table.items():
        if path not in now and not _below(path, now):
            # It is as in the ancestor, of which size and time are not known.
            if entry.change == "changed":
                now[path] = PathEntry("changed", entry.kind, ctime=-1 if entry.kind != "d" else 0)
            elif entry.change == "deleted":
                now[path] = PathEntry("new", ctime=0)
    found = compare(before.table, now, None, after.keys, before.keys)
    return {path: replace(one, at=None) for path, one in found.items()}


def _change(lower: PathEntry | None, change: Change) -> Change | None:
    """Combine two consecutive changes; None if they cancel out."""
    if lower is None:
        return change
    if change == "deleted":
        return None if lower.change == "new" else "deleted"
    if lower.change == "new":
        return "new"
    return "changed"


def _below(path: str, gone: Mapping[str, object] | set[str]) -> bool:
    """Check whether a parent folder was deleted."""
    while path := path.rpartition("/")[0]:
        if path in gone and (isinstance(gone, set) or _deleted(gone[path])):
            return True
    return False


def _deleted(entry: object) -> bool:
    return isinstance(entry, PathEntry) and entry.change == "deleted"
