"""The drift of a session since a point in time, as a value and in few words.  Pure.

Every token of an agent's context counts. `+` new, `~` changed, `-` removed; `#n` is the journal entry that
did it, and the last line explains these.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from holdfast.base.quantities import size_text
from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.history.drift.authors import Author
from holdfast.runtime.history.drift.changed_paths import Change, FileChange
from holdfast.runtime.history.drift.holdings import NamedChange, ProcessChange
from holdfast.runtime.history.drift.packages import Package
from holdfast.runtime.history.drift.starting_point import StartingPoint

SIGNS: dict[Change, str] = {"new": "+", "changed": "~", "deleted": "-"}
MOST_NAMES = 12
MOST_PROCESSES = 12
_COMMAND = 48
_VALUE = 32
WHOLE = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "dist-packages"})
"""Folders whose contents matter to no one: they are one line unless that line would be a single file."""


@dataclass(frozen=True, slots=True)
class Drift:
    """All changes of a session between `since` and the time of the request (`at`, Unix seconds).

    `files` leaves out what belongs to `packages` and noise (`noise` counts that: caches, histories, records
    of package managers). `by` of each item holds numbers of journal entries, which `authors` explains.
    `notes` say what could not be compared.
    """

    session: str
    since: StartingPoint
    at: float
    files: tuple[FileChange, ...] = ()
    packages: tuple[Package, ...] = ()
    processes: tuple[ProcessChange, ...] = ()
    shell: tuple[NamedChange, ...] = ()
    kernel: tuple[NamedChange, ...] = ()
    authors: Mapping[int, Author] = field(default_factory=dict)
    noise: int = 0
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True if there are no changes."""
        return not (self.files or self.packages or self.processes or self.shell or self.kernel)

    def text(self, limit: int = 12, *, every_file: bool = False) -> str:
        """Summarize in few words, for an agent's context or a person.

        Args:
            limit: about how many lines each list has; files are collapsed into folders for it.
            every_file: name every file.
        """
        return _render(self, limit, every_file=every_file)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields for programs."""
        authors = {
            str(seq): {
                **as_table(one, "seq"),
                "begin": _iso(one.begin),
                "end": None if math.isinf(one.end) else _iso(one.end),
            }
            for seq, one in self.authors.items()
        }
        since = {**as_table(self.since, "snapshot_id"), "at": _iso(self.since.at)}
        return {
            **as_table(self, "authors"),
            "since": {**since, "snapshot": self.since.snapshot_id},
            "at": _iso(self.at),
            "files": [
                {**as_table(one, "size"), "bytes": one.size, "at": _moment(one.at)} for one in self.files
            ],
            "packages": [{**as_table(one), "at": _moment(one.at)} for one in self.packages],
            "processes": [{**as_table(one), "ended": one.ended or None} for one in self.processes],
            "shell": [{**as_table(one, "where"), "shell": one.where} for one in self.shell],
            "kernel": [{**as_table(one, "where"), "kernel": one.where} for one in self.kernel],
            "authors": authors,
        }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _moment(at: float | None) -> str | None:
    return None if at is None else _iso(at)


def _render(drift: Drift, limit: int, *, every_file: bool = False) -> str:
    """Return the text. Lines for files are collapsed into folders above `limit`; other lists are truncated
    there.
    """
    lines: list[str] = []
    shown: set[int] = set()

    def by(numbers: Sequence[int]) -> str:
        shown.update(numbers)
        return f" {','.join(f'#{number}' for number in numbers)}" if numbers else ""

    files = [single(one) for one in drift.files] if every_file else collapse(drift.files, limit)
    lines += [f"{_file(line)}{_brought(line)}{by(line.by[:4])}" for line in files]
    for (manager, place), some in groupby(drift.packages, key=lambda one: (one.manager, one.place)):
        packages = list(some)
        where = f" {_place(place)}" if place and not place.startswith("/opt/python/") else ""
        numbers = sorted({number for one in packages for number in one.by})
        names = _cut([_package(one) for one in packages], max(limit, MOST_NAMES))
        lines.append(f"{manager}{where}: {', '.join(names)}{by(numbers[:4])}")
    processes = drift.processes[: max(limit, MOST_PROCESSES)]
    lines += [f"{_process(one)}{by(one.by)}" for one in processes]
    if len(drift.processes) > len(processes):
        lines.append(f"… {len(drift.processes) - len(processes)} more processes")
    for title, items in (("shell", drift.shell), ("kernel", drift.kernel)):
        for where, some_items in groupby(items, key=lambda one: one.where):
            mine = list(some_items)
            name = title if where == "main" else f"{title} {plain(where, 40)}"
            kept = mine[: max(limit, MOST_NAMES)]
            more = [f"… {len(mine) - len(kept)} more"] if len(mine) > len(kept) else []
            lines.append(f"{name}: {'; '.join([*_grouped(kept, by), *more])}")
    head = f"since {plain(drift.since.label, 80)}: "
    if drift.since.until is not None:
        head = f"from {plain(drift.since.label, 80)} to {plain(drift.since.until, 80)}: "
    head += "" if lines else "nothing changed"
    notes = [f"note: {plain(note, 200)}" for note in drift.notes]
    authors = [
        f"#{seq} {plain(one.actor, 40)} `{plain(one.text, _COMMAND)}`"
        if one.text
        else f"#{seq} {plain(one.actor, 40)}"
        for seq, one in sorted(drift.authors.items())
        if seq in shown
    ]
    return "\n".join([head.rstrip(), *lines, *([f"by {'; '.join(authors)}"] if authors else []), *notes])


def _file(line: CollapsedPath) -> str:
    path = plain(line.path, 300)
    if line.files == 1:
        sign = "+" if line.new else "~" if line.changed else "-"
        return f"{sign} {path}" + ("" if line.deleted or path.endswith("/") else f" {size_text(line.size)}")
    kinds = [(line.new, "+"), (line.changed, "~"), (line.deleted, "-")]
    present = [(count, sign) for count, sign in kinds if count]
    if len(present) == 1:
        count, sign = present[0]
        return f"{sign} {path} {count} files" + ("" if sign == "-" else f", {size_text(line.size)}")
    return f"~ {path} {' '.join(f'{sign}{count}' for count, sign in present)} files, {size_text(line.size)}"


def _brought(line: CollapsedPath) -> str:
    return f" from outside by {plain(', '.join(line.brought_by[:2]), 80)}" if line.brought_by else ""


def _package(one: Package) -> str:
    name = plain(one.name, 80)
    new, old = plain(one.new or "", 40), plain(one.old or "", 40)
    if one.new is None:
        return f"-{name} {old}".rstrip()
    if one.old:
        return f"{name} {old} -> {new}"
    return f"{'~' if one.replaced else '+'}{name} {new}".rstrip()


def _process(one: ProcessChange) -> str:
    ports = " ".join(f":{port}" for port in one.ports)
    closed = " ".join(f"-:{port}" for port in one.closed)
    words = [
        f"{SIGNS[one.change]}{one.pid}",
        plain(one.command, _COMMAND),
        ports,
        closed,
        plain(one.ended, 60),
    ]
    return " ".join(word for word in words if word)


def _grouped(items: Iterable[NamedChange], by: object) -> list[str]:
    """Group items by author, so that each is named once."""
    assert callable(by)
    return [
        ", ".join(_item(item) for item in some) + by(numbers)
        for numbers, some in groupby(items, key=lambda item: item.by)
    ]


def _item(item: NamedChange) -> str:
    name, old, new = plain(item.name, 80), _value(item.old), _value(item.new)
    if item.kind == "kernel":
        return new
    if item.kind in ("directory", "umask"):
        return f"{name} {old} -> {new}"
    if item.kind == "name":
        texts = {"new": new, "changed": new if old == new else f"{old} -> {new}", "deleted": ""}
        return f"{SIGNS[item.change]}{name} {texts[item.change]}".rstrip()
    if item.kind == "function":
        return f"{SIGNS[item.change]}{name}()"
    prefix = "alias " if item.kind == "alias" else "export " if item.exported else ""
    if item.change == "deleted":
        return f"-{prefix}{name}"
    if item.change == "changed" and old != new:
        return f"~{prefix}{name} {old} -> {new}"
    return f"{SIGNS[item.change]}{prefix}{name}={new}"


def _value(value: str | None) -> str:
    shown = plain(value or "", _VALUE)
    return shown if shown or value is None else repr(value)[:_VALUE]


def _place(place: str) -> str:
    """Return the folder of an environment or a project rather than the package manager's folder in it."""
    for inner in ("/lib/python", "/lib64/python", "/node_modules"):
        place = place.partition(inner)[0]
    return plain(place, 120)


def _cut(names: list[str], most: int) -> list[str]:
    return names if len(names) <= most else [*names[: most - 1], f"… {len(names) - most + 1} more"]


@dataclass(frozen=True, slots=True)
class CollapsedPath:
    """A file, or a folder (its path ends in a slash) with the numbers of files in it."""

    path: str
    new: int = 0
    changed: int = 0
    deleted: int = 0
    size: int = 0
    by: tuple[int, ...] = ()
    brought_by: tuple[str, ...] = ()

    @property
    def files(self) -> int:
        """The number of files it stands for."""
        return self.new + self.changed + self.deleted


@dataclass(slots=True)
class _Node:
    path: str
    folders: dict[str, _Node] = field(default_factory=dict)
    files: list[FileChange] = field(default_factory=list)

    def every(self) -> Iterable[FileChange]:
        yield from self.files
        for folder in self.folders.values():
            yield from folder.every()

    @property
    def parts(self) -> int:
        return len(self.folders) + len(self.files)


def collapse(changes: Sequence[FileChange], limit: int) -> list[CollapsedPath]:
    """Return at most about `limit` lines for the changes, ordered by path.

    Folders are opened from the top down, those with the fewest entries first, as long as there is room.
    """
    root = _Node("")
    for change in changes:
        node = root
        *folders, _ = change.path.lstrip("/").split("/")
        for name in folders:
            node = node.folders.setdefault(name, _Node(f"{node.path}/{name}"))
        node.files.append(change)
    closed, files = [root], list[FileChange]()
    room = max(limit, 1)
    while True:
        openable = [
            node for node in closed if len(closed) + len(files) - 1 + node.parts <= room and _opens(node)
        ]
        if not openable:
            break
        node = min(openable, key=lambda each: (each.parts, each.path.count("/"), each.path))
        closed.remove(node)
        closed += node.folders.values()
        files += node.files
    lines = [_folder(node) for node in closed if node.parts] + [single(one) for one in files]
    return sorted(lines, key=lambda line: line.path)


def _opens(node: _Node) -> bool:
    name = node.path.rpartition("/")[2]
    return node.parts > 0 and (name not in WHOLE or sum(1 for _ in node.every()) == 1)


def single(one: FileChange) -> CollapsedPath:
    """Return the line of one file."""
    count = {one.change: 1}
    path = one.path + "/" if one.folder else one.path
    return CollapsedPath(path, **count, size=one.size, by=one.by, brought_by=_bringers([one]))


def _folder(node: _Node) -> CollapsedPath:
    every = list(node.every())
    if len(every) == 1:
        return single(every[0])
    count = Counter(one.change for one in every)
    by = tuple(sorted({seq for one in every for seq in one.by}))
    return CollapsedPath(
        f"{node.path}/",
        count["new"],
        count["changed"],
        count["deleted"],
        sum(one.size for one in every),
        by,
        _bringers(every),
    )


def _bringers(every: Iterable[FileChange]) -> tuple[str, ...]:
    return tuple(sorted({one.brought_by for one in every if one.brought_by}))
