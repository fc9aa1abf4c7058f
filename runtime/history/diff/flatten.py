"""From what each snapshot remembers to two tables of files that can be compared.  Pure.

A snapshot's table tells how its container differed from the snapshot that was made from. Going back over
these, two snapshots meet in a common one, or in the plain image; from there on tables are laid over others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import (
    Change,
    Entry,
    FileChange,
    Key,
    Table,
    compare,
)


@dataclass(frozen=True, slots=True)
class Flat:
    """All that differs from a common beginning: files, the packages among that, and their versions."""

    table: Table
    keys: tuple[Key, ...] = ()
    versions: tuple[str, ...] = ()

    def known(self) -> dict[Key, str]:
        """Versions by package, empty where one is there without."""
        return dict(zip(self.keys, self.versions, strict=True))


def common(first: Sequence[str | None], second: Sequence[str | None]) -> str | None:
    """Return where two lines meet. Each is a snapshot and what it goes back to, ending with None or a gap.

    Raises:
        LookupError: they do not, for a snapshot in between is gone.
    """
    there = set(second)
    for one in first:
        if one in there:
            return one
    gaps = [line[-1] for line in (first, second) if line[-1] is not None]
    raise LookupError(gaps[0] if gaps else "")


def flatten(found: Iterable[Baseline]) -> Flat:
    """Lay the tables of a line over each other, the oldest first."""
    table: dict[str, Entry] = {}
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
    """Return what is another in the second than in the first, both from the same beginning."""
    now = dict(after.table)
    for path, entry in before.table.items():
        if path not in now and not _below(path, now):
            # It is there as it was in the beginning, of which size and time are not known.
            if entry.change == "changed":
                now[path] = Entry("changed", entry.kind, ctime=-1 if entry.kind != "d" else 0)
            elif entry.change == "deleted":
                now[path] = Entry("new", ctime=0)
    found = compare(before.table, now, None, after.keys, before.keys)
    return {path: replace(one, at=None) for path, one in found.items()}


def _change(lower: Entry | None, change: Change) -> Change | None:
    """What two changes after each other are; None if all is as it was."""
    if lower is None:
        return change
    if change == "deleted":
        return None if lower.change == "new" else "deleted"
    if lower.change == "new":
        return "new"
    return "changed"


def _below(path: str, gone: Mapping[str, object] | set[str]) -> bool:
    """Whether a folder above was deleted."""
    while path := path.rpartition("/")[0]:
        if path in gone and (isinstance(gone, set) or _deleted(gone[path])):
            return True
    return False


def _deleted(entry: object) -> bool:
    return isinstance(entry, Entry) and entry.change == "deleted"
