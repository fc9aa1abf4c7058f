"""Compares two snapshots by their records: reads these from their folders, and assembles the result.

No session is asked, so it does not matter whether any of them still runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument, SnapshotDamaged, SnapshotNewer, SnapshotNotFound
from holdfast.runtime.history.diff import file_contents, flatten
from holdfast.runtime.history.diff.diff_result import Diff
from holdfast.runtime.history.diff.file_contents import Contents
from holdfast.runtime.history.diff.flatten import Flat
from holdfast.runtime.history.drift import baseline, changed_paths, changes, packages
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.holdings import HeldProcess, Holdings
from holdfast.runtime.history.drift.since import StartingPoint
from holdfast.runtime.storage.snapshot_storage import image_ref
from holdfast.snapshots import record

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow

OTHER_CLOCK = -1
"""A generation that no session has: start times of different containers do not compare."""


def compare(context: Context, before: str, after: str, *, everything: bool = False) -> Diff:
    """Compare the snapshots of these labels or ids.

    Raises:
        SnapshotNotFound: one of them does not exist.
        InvalidArgument, SnapshotDamaged, SnapshotNewer: as for `Comparing.answer`.
    """
    rows = [_row(context, ref) for ref in (before, after)]
    return Comparing(context, *rows).answer(everything=everything)


def _row(context: Context, ref: str) -> SnapshotRow:
    try:
        return context.store.snapshot(ref)
    except SnapshotNotFound as missing:
        if any(ref in (row.id, row.name) for row in context.store.sessions()):
            hint = f"`holdfast drift {ref} --since SNAP` compares the present of a session"
            raise SnapshotNotFound(str(missing), hint=hint) from None
        raise


class Comparing:
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
            SnapshotDamaged, SnapshotNewer: what one of them held cannot be read.
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
            processes=tuple(changes.processes(one, other)) if live else (),
            shell=tuple(changes.shells(one.shells, other.shells)) if live else (),
            kernel=tuple(changes.kernels(one.kernels, other.kernels)) if live else (),
            noise=noise,
            notes=tuple(self._notes),
        )
        return Diff(self._before.name, self._after.name, drift)

    # Files and packages.

    def _files(self) -> tuple[list[changed_paths.FileChange], list[packages.Package]]:
        first, second = self._line(self._before.id), self._line(self._after.id)
        try:
            meeting = flatten.common(first, second)
        except LookupError as gap:
            raise InvalidArgument(
                f"cannot compare {self._before.name} with {self._after.name}: snapshot {gap}, which lies in "
                "between, was removed",
                hint="compare snapshots that are closer to each other",
            ) from gap
        before, after = self._flat(first, meeting), self._flat(second, meeting)
        self._note_images(meeting)
        found = flatten.differences(before, after)
        versions = {key: {"new": version} for key, version in after.known().items()}
        changed = packages.settle(packages.find(found.values()), versions, before.known())
        files = list(found.values())
        if changed:
            files, changed = packages.separate(files, changed)
        return file_contents.settle(
            files, *(self._contents(row) for row in (self._before, self._after))
        ), changed

    def _line(self, identity: str | None) -> list[str | None]:
        """Return the snapshot and its ancestors; the last is None, or one that is gone."""
        line: list[str | None] = []
        while identity is not None and identity in self._rows and identity not in line:
            line.append(identity)
            row = self._rows[identity]
            identity = self._baseline(row).base if row.details.has_base else row.parent_snapshot_id
        return [*line, identity]

    def _flat(self, line: list[str | None], until: str | None) -> Flat:
        after = line[: line.index(until)]
        return flatten.flatten(self._baseline(self._rows[one]) for one in reversed(after) if one is not None)

    def _baseline(self, row: SnapshotRow) -> Baseline:
        if row.id not in self._read:
            found = baseline.read(self._context.home.snapshots / row.id)
            if found is None:
                raise InvalidArgument(
                    f"cannot compare: snapshot {row.name} did not record what it held",
                    hint="it was taken by an older version; compare with a later one",
                )
            self._read[row.id] = found
        return self._read[row.id]

    def _contents(self, row: SnapshotRow) -> Contents:
        return Contents(self._context.engine.images.layers(image_ref(row.id)))

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
        """Return the processes of the freeze itself, if they are known; the rest is as of just before it."""
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
        self._notes.append(f"{' and '.join(names)} {verb} of files only: nothing else was compared")

    def _note_kernels(self, one: Holdings, other: Holdings) -> None:
        for name, kernel in other.kernels.items():
            old = one.kernels.get(name)
            if old is not None and (kernel.names is None or old.names is None) and kernel.epoch:
                row = self._after if kernel.names is None else self._before
                self._notes.append(f"the names in kernel {name} are not known of {row.name}")

    def _note_images(self, meeting: str | None) -> None:
        if meeting is not None:
            return
        images = {row.id: row.image for row in self._context.store.sessions(removed=True)}
        roots = [self._rows[line[-2]].session_id for line in self._lines() if line[-2] is not None]
        if len({images.get(each) for each in roots}) > 1:
            self._notes.append("they come from different images, which are not compared")

    def _lines(self) -> list[list[str | None]]:
        return [self._line(row.id) for row in (self._before, self._after)]
