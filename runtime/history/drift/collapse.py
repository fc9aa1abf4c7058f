"""Collapses many paths into few lines: folders stand for the changes in them.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.runtime.history.drift.changed_paths import FileChange

WHOLE = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "dist-packages"})
"""Folders whose contents matter to no one: they are one line unless that line would be a single file."""


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
