"""What the kernel's events mean for the paths below one folder: a state machine. Pure.

It says what changed, and which folders must be watched as well; it watches and lists nothing. What a list of
files has reported is not reported again when its event is read: `settle`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.files import inotify_events as raw
from holdfast.runtime.guest.files.inotify_events import RawEvent
from holdfast.runtime.guest.files.rename_pairs import Rename
from holdfast.runtime.guest.files.watch_tree import WatchTree

Kind = Literal["created", "modified", "removed", "renamed", "attributes", "lost"]
_KINDS: tuple[tuple[int, Kind], ...] = (
    (raw.CREATE | raw.MOVED_TO, "created"),
    (raw.DELETE | raw.MOVED_FROM, "removed"),
    (raw.MODIFY, "modified"),
    (raw.ATTRIB, "attributes"),
)


@dataclass(frozen=True, slots=True)
class PathChange:
    """Something that changed, by path from the watched folder; '' is that folder.

    `to` is the new path of what was renamed; `why` says why events were lost.
    """

    kind: Kind
    path: str
    folder: bool = False
    to: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class FolderAppeared:
    """A folder in a watched one that must be watched; its name there, and its path."""

    parent: int
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class WatchesLeft:
    """Watches that have no use any more."""

    watches: tuple[int, ...]


class QueueOverflowed:
    """The kernel has dropped events."""


class RootGone:
    """The watched folder was removed, or has another name."""


Step = PathChange | FolderAppeared | WatchesLeft | QueueOverflowed | RootGone


class PathEvents:
    """The state of one watch: its folders, and what of coming events is known already."""

    def __init__(self, tree: WatchTree, *, recursive: bool, only: str | None = None) -> None:
        """Begin with folders that are watched already; `only` limits it to one name in the root."""
        self.tree = tree
        self._recursive = recursive
        self._only = only
        self._muted = 0
        self._settled: dict[tuple[str, str], int] = {}
        self._settled_until = 0

    def mute(self, until: int) -> None:
        """Report nothing that ends up to there in the queue; folders are followed nevertheless."""
        self._muted = until

    def settle(self, changes: Iterable[PathChange], until: int) -> None:
        """Take note of what a list has reported: events up to there in the queue may repeat it."""
        for change in changes:
            if change.kind == "renamed" and change.to is not None:
                self._settled["removed", change.path] = until
                self._settled["created", change.to] = until
            else:
                self._settled[change.kind, change.path] = until
        self._settled_until = max(self._settled_until, until)

    def feed(self, event: RawEvent | Rename) -> Iterator[Step]:
        """Yield what follows from an event; each step is carried out before the next one is asked for."""
        end = event.target.end if isinstance(event, Rename) else event.end
        if end > self._settled_until:
            self._settled.clear()
        steps = self._renamed(event) if isinstance(event, Rename) else self._single(event)
        for step in steps:
            if not isinstance(step, PathChange) or end > self._muted:
                yield step

    def _single(self, event: RawEvent) -> Iterator[Step]:
        if event.mask & raw.OVERFLOW:
            yield QueueOverflowed()
        elif event.watch not in self.tree:
            return
        elif not event.name:
            yield from self._itself(event)
        else:
            yield from self._named(event)

    def _itself(self, event: RawEvent) -> Iterator[Step]:
        if event.watch != self.tree.root:
            if event.mask & raw.IGNORED:
                self.tree.drop(event.watch)
        elif event.mask & (raw.DELETE_SELF | raw.MOVE_SELF | raw.IGNORED):
            if self._only is None or event.mask & raw.MOVE_SELF:
                yield PathChange("removed", self._only or "", folder=self._only is None)
            yield RootGone()
        elif event.mask & raw.ATTRIB and self._only is None:
            yield PathChange("attributes", "", folder=True)

    def _named(self, event: RawEvent) -> Iterator[Step]:
        kind = next((kind for mask, kind in _KINDS if event.mask & mask), None)
        if kind is None or not self._concerns(event):
            return
        path = self.tree.path(event.watch, event.name)
        if kind == "removed" and event.mask & raw.MOVED_FROM and event.folder:
            yield from self._left(self.tree.child(event.watch, event.name))
        yield from self._new(PathChange(kind, path, event.folder), event.end)
        if kind == "created" and event.folder and self._recursive:
            yield FolderAppeared(event.watch, event.name, path)

    def _renamed(self, event: Rename) -> Iterator[Step]:
        source, target = event
        if source.watch not in self.tree or target.watch not in self.tree:
            yield from self._single(source)
            yield from self._single(target)
            return
        if not (self._concerns(source) or self._concerns(target)):
            return
        old, new = self.tree.path(source.watch, source.name), self.tree.path(target.watch, target.name)
        gone = self._known("removed", old, source.end)
        there = self._known("created", new, target.end)
        if source.folder and self._recursive:
            yield from self._moved(source, target)
        if not gone and not there:
            yield PathChange("renamed", old, source.folder, new)
        elif not gone:
            yield PathChange("removed", old, source.folder)
        elif not there:
            yield PathChange("created", new, source.folder)
        if source.folder and self._recursive:
            yield FolderAppeared(target.watch, target.name, new)

    def _moved(self, source: RawEvent, target: RawEvent) -> Iterator[Step]:
        self._settled.clear()  # the paths are those of other files now; better one event too many
        moved, replaced = (self.tree.child(each.watch, each.name) for each in (source, target))
        if replaced is not None and replaced != moved:
            yield from self._left(replaced)
        if moved is not None:
            try:
                self.tree.place(moved, target.watch, target.name)
            except ValueError:
                yield from self._left(moved)

    def _left(self, watch: int | None) -> Iterator[Step]:
        if watch is not None:
            self._settled.clear()
            yield WatchesLeft(tuple(self.tree.drop(watch)))

    def _new(self, change: PathChange, end: int) -> Iterator[Step]:
        if not self._known(change.kind, change.path, end):
            yield change

    def _known(self, kind: str, path: str, end: int) -> bool:
        """Check whether a list has reported it; what is made or removed again after that is new."""
        if kind in ("modified", "attributes"):
            return end <= self._settled.get((kind, path), 0)
        self._settled.pop(("created" if kind == "removed" else "removed", path), None)
        return end <= self._settled.pop((kind, path), 0)

    def _concerns(self, event: RawEvent) -> bool:
        return self._only is None or event.name == self._only
