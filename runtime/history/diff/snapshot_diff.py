"""Compares two snapshots by the records in their folders, and assembles the result.

No session is asked, so it does not matter whether any of them still runs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument, SnapshotDamaged, SnapshotNewer, SnapshotNotFound
from holdfast.runtime.history.diff.diff_result import Diff
from holdfast.runtime.history.drift import baseline, changed_paths, holdings, packages
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import Change, FileChange, Key, PathEntry, Table, compare
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.holdings import HeldProcess, Holdings
from holdfast.runtime.history.drift.starting_point import StartingPoint
from holdfast.runtime.storage import snapshot_image
from holdfast.snapshots import record

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


OTHER_CLOCK = -1
"""A generation that no session has: start times of different containers do not compare."""
MOST_FILES = 5000
MOST_BYTES = 512 << 20
"""The most bytes read of all files together; the rest counts as different."""
_OPAQUE = "trusted.overlay.opaque"
_CHUNK = 1 << 20


def compare_snapshots(context: Context, before: str, after: str, *, everything: bool = False) -> Diff:
    """Compare the snapshots of these labels or ids.

    Raises:
        SnapshotNotFound: one of them does not exist.
        InvalidArgument, SnapshotDamaged, SnapshotNewer: as for `Comparing.answer`.
    """
    rows = [_row(context, ref) for ref in (before, after)]
    return SnapshotComparison(context, *rows).answer(everything=everything)


def _row(context: Context, ref: str) -> SnapshotRow:
    try:
        return context.store.snapshot(ref)
    except SnapshotNotFound as missing:
        if any(ref in (row.id, row.name) for row in context.store.sessions()):
            hint = f"`holdfast drift {ref} --since SNAP` compares the present of a session"
            raise SnapshotNotFound(str(missing), hint=hint) from None
        raise


class SnapshotComparison:
    """One comparison."""

    def __init__(self, context: Context, before: SnapshotRow, after: SnapshotRow) -> None:
        self._context = context
        self._before = before
        self._after = after
        self._rows = {row.id: row for row in context.store.snapshots()}
        self._read: dict[str, Baseline] = {}
        self._notes: list[str] = []

    def answer(self, *, everything: bool = False) -> Diff:
        """Return how the second differs from the first.

        Raises:
            InvalidArgument: one of them did not record what it held, or one in between is gone.
            SnapshotDamaged, SnapshotNewer: the content of one of them cannot be read.
        """
        one, other = self._held(self._before), self._held(self._after)
        files, found = self._files()
        kept, noise = (files, 0) if everything else changed_paths.sift(files)
        live = self._before.kind == self._after.kind == "live"
        if not live:
            self._note_files_only()
        else:
            self._note_kernels(one, other)
        drift = Drift(
            session=self._after.session_id,
            since=StartingPoint(self._before.name, one.at, None, self._before.id, until=self._after.name),
            at=other.at,
            files=tuple(sorted(kept, key=lambda each: each.path)),
            packages=tuple(found),
            processes=tuple(holdings.changed_processes(one, other)) if live else (),
            shell=tuple(holdings.changed_shells(one.shells, other.shells)) if live else (),
            kernel=tuple(holdings.changed_kernels(one.kernels, other.kernels)) if live else (),
            noise=noise,
            notes=tuple(self._notes),
        )
        return Diff(self._before.name, self._after.name, drift)

    # Files and packages.

    def _files(self) -> tuple[list[changed_paths.FileChange], list[packages.Package]]:
        first, second = self._line(self._before.id), self._line(self._after.id)
        try:
            meeting = common(first, second)
        except LookupError as gap:
            raise InvalidArgument(
                f"cannot compare {self._before.name} with {self._after.name}: snapshot {gap}, which lies in "
                "between, was removed",
                hint="compare snapshots that are closer to each other",
            ) from gap
        before, after = self._flat(first, meeting), self._flat(second, meeting)
        self._note_images(meeting)
        found = differences(before, after)
        versions = {key: {"new": version} for key, version in after.known().items()}
        changed = packages.settle(packages.find(found.values()), versions, before.known())
        files = list(found.values())
        if changed:
            files, changed = packages.separate(files, changed)
        return _settle_contents(files, *(self._contents(row) for row in (self._before, self._after))), changed

    def _line(self, identity: str | None) -> list[str | None]:
        """Return the snapshot and its ancestors; the last is None, or one that was removed."""
        line: list[str | None] = []
        while identity is not None and identity in self._rows and identity not in line:
            line.append(identity)
            row = self._rows[identity]
            identity = self._baseline(row).base if row.details.has_base else row.parent_snapshot_id
        return [*line, identity]

    def _flat(self, line: list[str | None], until: str | None) -> DifferencesFromAncestor:
        after = line[: line.index(until)]
        return flatten(self._baseline(self._rows[one]) for one in reversed(after) if one is not None)

    def _baseline(self, row: SnapshotRow) -> Baseline:
        if row.id not in self._read:
            found = baseline.read(self._context.home.snapshots / row.id)
            if found is None:
                raise InvalidArgument(
                    f"cannot compare: snapshot {row.name} did not record what it held",
                    hint="an older version took it; compare with a later snapshot",
                )
            self._read[row.id] = found
        return self._read[row.id]

    def _contents(self, row: SnapshotRow) -> ImageContents:
        return ImageContents(self._context.engine.images.layers(snapshot_image.obtain(self._context, row)))

    # Memory.

    def _held(self, row: SnapshotRow) -> Holdings:
        held = self._baseline(row).held
        if row.kind != "live":
            return held
        if row is self._after and self._container(row) != self._container(self._before):
            held = replace(held, generation=OTHER_CLOCK)
        return replace(held, processes=self._processes(row, held))

    def _container(self, row: SnapshotRow) -> tuple[str, str | None]:
        return row.session_id, self._baseline(row).base

    def _processes(self, row: SnapshotRow, held: Holdings) -> dict[int, HeldProcess]:
        """Return the processes of the freeze itself, if known; the rest is as of just before it."""
        try:
            kept = record.read(self._context.home.snapshots / row.id)
        except (SnapshotDamaged, SnapshotNewer) as error:
            self._notes.append(str(error))
            kept = None
        if kept is None:
            return dict(held.processes)
        alive = [one for one in kept.tree.processes if one.state != "zombie"]
        return {
            one.pid: held.processes.get(one.pid) or HeldProcess(pid=one.pid, command=one.command)
            for one in alive
        }

    # What could not be compared.

    def _note_files_only(self) -> None:
        names = [row.name for row in (self._before, self._after) if row.kind != "live"]
        verb = "are snapshots" if len(names) > 1 else "is a snapshot"
        self._notes.append(f"{' and '.join(names)} {verb} of files only: only files were compared")

    def _note_kernels(self, one: Holdings, other: Holdings) -> None:
        for name, kernel in other.kernels.items():
            old = one.kernels.get(name)
            if old is not None and (kernel.names is None or old.names is None) and kernel.epoch:
                row = self._after if kernel.names is None else self._before
                self._notes.append(f"the names in kernel {name} were not recorded with {row.name}")

    def _note_images(self, meeting: str | None) -> None:
        if meeting is not None:
            return
        images = {row.id: row.image for row in self._context.store.sessions(removed=True)}
        roots = [self._rows[line[-2]].session_id for line in self._lines() if line[-2] is not None]
        if len({images.get(each) for each in roots}) > 1:
            self._notes.append("they come from different images, and images are not compared")

    def _lines(self) -> list[list[str | None]]:
        return [self._line(row.id) for row in (self._before, self._after)]


@dataclass(frozen=True, slots=True)
class DifferencesFromAncestor:
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
        LookupError: they do not meet, because a snapshot in between was removed.
    """
    there = set(second)
    for one in first:
        if one in there:
            return one
    gaps = [line[-1] for line in (first, second) if line[-1] is not None]
    raise LookupError(gaps[0] if gaps else "")


def flatten(found: Iterable[Baseline]) -> DifferencesFromAncestor:
    """Lay the tables of a line over each other, oldest first."""
    table: dict[str, PathEntry] = {}
    numbers: dict[Key, int] = {}
    versions: list[str] = []
    for each in found:
        for key, version in zip(each.keys, each.versions, strict=True):
            if key not in numbers:
                numbers[key] = len(versions)
                versions.append("")
            versions[numbers[key]] = version
        gone = {path for path, entry in each.table.items() if entry.change == "deleted"}
        if gone:
            table = {path: entry for path, entry in table.items() if not _below(path, gone)}
        for path, entry in each.table.items():
            owner = numbers[each.keys[entry.owner]] if 0 <= entry.owner < len(each.keys) else -1
            change = _change(table.get(path), entry.change)
            if change is None:
                del table[path]
            else:
                table[path] = replace(entry, change=change, owner=owner)
    return DifferencesFromAncestor(table, tuple(numbers), tuple(versions))


def differences(before: DifferencesFromAncestor, after: DifferencesFromAncestor) -> dict[str, FileChange]:
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


class ImageContents:
    """The files of one image; `layers` are its folders, the topmost first."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._layers = layers

    @contextmanager
    def opened(self, path: str) -> Iterator[int | None]:
        """Open the regular file at a path and return a descriptor; None if there is none, or it cannot be
        read.
        """
        fd: int | None = None
        for layer in self._layers:
            fd, hidden = _open_in(layer, path.strip("/").split("/"))
            if fd is not None or hidden:
                break
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)


def _settle_contents(
    found: Iterable[FileChange], before: ImageContents, after: ImageContents
) -> list[FileChange]:
    """Leave out files that were rewritten unchanged, and fill in missing sizes."""
    kept: list[FileChange] = []
    files, left = 0, MOST_BYTES
    for change in found:
        if change.change == "deleted" or change.folder or (change.change == "new" and change.size):
            kept.append(change)
            continue
        files += 1
        if files > MOST_FILES:
            kept.append(change)
            continue
        with before.opened(change.path) as old, after.opened(change.path) as new:
            size = os.fstat(new).st_size if new is not None else change.size
            if old is not None and new is not None and _alike(old, new) and size <= left:
                left -= size
                if _same(old, new):
                    continue
            kept.append(replace(change, size=size))
    return kept


def _open_in(layer: Path, names: Sequence[str]) -> tuple[int | None, bool]:
    """Open the path in one layer. The second value is True if lower layers do not show through."""
    folder = -1
    with suppress(OSError):
        folder = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if folder < 0:
        return None, True
    hidden = False
    try:
        for at, name in enumerate(names):
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                return None, hidden
            if at == len(names) - 1 and stat.S_ISREG(found.st_mode):
                return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), True
            if at == len(names) - 1 or not stat.S_ISDIR(found.st_mode):
                return None, True
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
            hidden = hidden or _OPAQUE in os.listxattr(folder)
        return None, hidden
    except OSError:
        return None, True
    finally:
        os.close(folder)


def _alike(old: int, new: int) -> bool:
    one, other = os.fstat(old), os.fstat(new)
    return (one.st_size, one.st_mode, one.st_uid, one.st_gid) == (
        other.st_size,
        other.st_mode,
        other.st_uid,
        other.st_gid,
    )


def _same(old: int, new: int) -> bool:
    while True:
        one, other = os.read(old, _CHUNK), os.read(new, _CHUNK)
        if one != other:
            return False
        if not one:
            return True
