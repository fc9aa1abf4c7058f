"""Finds what changed in a session since a point in time: asks store, engine and guest, and assembles the
result.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.drift import (
    authors,
    baseline,
    changed_paths,
    holdings,
    observe_session,
    packages,
    starting_point,
    undo_journal,
)
from holdfast.runtime.history.drift.authors import Authors, EntryTable, HostCopy
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import FileChange
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.holdings import Holdings, NamedChange, ProcessChange
from holdfast.runtime.history.drift.packages import Package
from holdfast.runtime.history.drift.starting_point import Point, StartingPoint, TrailSpan
from holdfast.runtime.journal import journal_query
from holdfast.runtime.sessions import health

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow

BEGINNING = "#0"
"""The point before the first entry of a journal."""
EARLIER = 500
"""Entries before the point that are searched for what was still running then."""
KINDS = (
    *("command_started", "command_ended", "cell_started", "cell_ended", "job_started", "job_ended"),
    *("attached", "detached", "changed", "process_exited", "woken", "dropped"),
)


class DriftQuery:
    """One query about one session."""

    def __init__(self, context: Context, row: SessionRow) -> None:
        self._context = context
        self._row = row
        self._client = GuestClient(context.home.run_dir(row.id))
        self._notes: list[str] = []
        self._first = 0

    def answer(self, text: str | None, *, everything: bool = False) -> Drift:
        """Compare the present with the point that the text names, by default the last capture.

        Raises:
            InvalidArgument: it names none, or one that is not in this session's past.
            SessionError, GuestError: the session does not answer.
        """
        health.check(self._context, self._row.id)
        now = observe_session.held(self._client)
        snapshot = self._snapshot(text) if text is not None else self._last_capture()
        old = self._baseline(snapshot) if snapshot is not None else None
        if snapshot is not None and old is not None:
            moment = StartingPoint(snapshot.name, old.held.at, old.held.seq, snapshot.id)
            spans = starting_point.to_snapshot(
                self._point(snapshot), self._row.id, self._row.parent_snapshot_id, self._points()
            )
            entries = self._entries(max(0, old.held.seq - EARLIER))
            known = authors.authors(entries)
            before = old.held
        else:
            moment, entries = self._moment(text or BEGINNING, now)
            moment = replace(moment, label=text or "the beginning")
            seq = moment.seq or 0
            spans = starting_point.to_time(
                moment.at, self._row.id, self._row.parent_snapshot_id, self._points()
            )
            known = authors.authors(entries)
            before = undo_journal.rewind(now, entries, seq, moment.at, known)
            self._note_lost(seq)
        files, found = self._files(spans, None if old else moment.at, old, _restored(entries))
        return self._drift(moment, now, before, files, found, entries, known, everything=everything)

    # The point in time.

    def _last_capture(self) -> SnapshotRow | None:
        """Return the newest snapshot of the session, or the one that it was restored from."""
        newest = self._context.store.latest_snapshot(self._row.id)
        if newest is None and self._row.parent_snapshot_id is not None:
            with suppress(SnapshotNotFound):
                return self._context.store.snapshot(self._row.parent_snapshot_id)
        return newest

    def _snapshot(self, text: str) -> SnapshotRow | None:
        """Find a snapshot; numbers and times do not count as the beginning of an id."""
        if (
            starting_point.entry_number(text) is not None
            or starting_point.time_of(text, datetime.now().astimezone()) is not None
        ):
            return next((row for row in self._context.store.snapshots() if text in (row.id, row.label)), None)
        try:
            return self._context.store.snapshot(text)
        except SnapshotNotFound:
            return None

    def _moment(self, text: str, now: Holdings) -> tuple[StartingPoint, list[EntryTable]]:
        number = starting_point.entry_number(text)
        if number is not None:
            entries = self._entries(max(0, number - EARLIER))
            return self._at_entry(number, entries, now), entries
        at = starting_point.time_of(text, datetime.now().astimezone())
        entries = self._entries(0)
        if at is not None:
            if at > now.at:
                raise InvalidArgument(f"cannot compare: {text} is in the future", hint=starting_point.HINT)
            before = [seq for seq, when in map(_seq_at, entries) if when <= at]
            return StartingPoint(text, at, max(before, default=max(0, self._first - 1))), entries
        found = [one for one in authors.authors(entries).by_seq.values() if one.id.startswith(text) and text]
        exact = [one for one in found if one.id == text] or found
        if len(exact) != 1:
            raise starting_point.unknown_point(text)
        return StartingPoint(f"#{exact[0].seq}", exact[0].begin, exact[0].seq - 1), entries

    def _at_entry(self, number: int, entries: list[EntryTable], now: Holdings) -> StartingPoint:
        if number > now.seq:
            raise InvalidArgument(
                f"cannot compare: there is no journal entry #{number}; the newest is #{now.seq}",
                hint=starting_point.HINT,
            )
        before = [one for one in entries if _seq_at(one)[0] <= number]
        after = [one for one in entries if _seq_at(one)[0] > number]
        around = [*sorted(before, key=_seq_at)[-1:], *after]  # a later one may have begun before its entry
        created = self._row.created_at.timestamp()
        at = min((authors.began_at(one, _seq_at(one)[1]) for one in around), default=created)
        return StartingPoint(f"#{number}", at, number)

    def _entries(self, after: int) -> list[EntryTable]:
        found: list[EntryTable] = []
        for frame in self._client.call("journal", after_seq=after, kinds=list(KINDS)):
            if wire_fields.event(frame) == "entry":
                found.append(_entry(frame))
            else:
                self._first = wire_fields.integer(frame, "first_seq")
        return found

    def _note_lost(self, seq: int) -> None:
        if self._first > seq + 1:
            self._notes.append(
                f"the journal begins at #{self._first}: earlier changes are known for files only"
            )

    # Files.

    def _files(
        self, spans: list[TrailSpan], at: float | None, old: Baseline | None, restored: float | None
    ) -> tuple[list[FileChange], list[Package]]:
        container = self._row.container_id or ""
        table, found, versions = baseline.files_and_packages(
            self._context.engine, self._client, container, old.held.at if old else at or 0.0
        )
        keys = [one.key for one in found]
        if len(table) > observe_session.MAX_PATHS:
            self._notes.append(f"of {len(table)} paths, {observe_session.MAX_PATHS} were looked at")
        total: dict[str, FileChange] = {}
        for span in reversed(spans):
            begin = self._stored(span.begin)
            end = self._stored(span.end) if span.end else None
            total = changed_paths.join(
                total,
                changed_paths.compare(
                    begin.table if begin else {},
                    end.table if end else table,
                    at,
                    end.keys if end else keys,
                    begin.keys if begin else (),
                    None if begin or end else restored,
                ),
            )
            if end:  # the known packages then apply where nothing newer is known
                for key, version in end.known().items():
                    versions.setdefault(key, {"new": version})
        changed = packages.settle(packages.find(total.values()), versions, old.known() if old else {})
        return packages.separate(total.values(), changed) if changed else (list(total.values()), [])

    def _baseline(self, snapshot: SnapshotRow) -> Baseline | None:
        found = baseline.read(self._context.home.snapshots / snapshot.id)
        if found is None:
            raise InvalidArgument(
                f"cannot compare: snapshot {snapshot.name} did not record what the session held",
                hint="an older version took it; compare with a later snapshot",
            )
        return found

    def _stored(self, identity: str | None) -> Baseline | None:
        return None if identity is None else self._baseline(self._context.store.snapshot(identity))

    def _points(self) -> Mapping[str, Point]:
        return starting_point.points_by_id([self._point(row) for row in self._context.store.snapshots()])

    def _point(self, row: SnapshotRow) -> Point:
        kept, at = row.details, row.details.moment.at
        at = row.created_at.timestamp() if at is None else at
        return Point(row.id, row.name, row.session_id, at, kept.base, kept.has_base)

    # Everything.

    def _drift(
        self,
        moment: StartingPoint,
        now: Holdings,
        before: Holdings,
        files: list[FileChange],
        found: list[Package],
        entries: list[EntryTable],
        known: Authors,
        *,
        everything: bool,
    ) -> Drift:
        kept, noise = (files, 0) if everything else changed_paths.sift(files)
        copies = self._copies(moment.at)
        mine = [authors.attributed(replace(one, by=known.at(one.at)), copies) for one in kept]
        named = authors.by_name(entries, moment.seq or 0, known)
        self._note_kernels(before, now)
        return Drift(
            session=self._row.name,
            since=moment,
            at=now.at,
            files=tuple(sorted(mine, key=lambda one: one.path)),
            packages=tuple(replace(one, by=known.at(one.at)) for one in found),
            processes=tuple(_ascribed(holdings.changed_processes(before, now), now, entries, known)),
            shell=tuple(_named(holdings.changed_shells(before.shells, now.shells), named)),
            kernel=tuple(_named(holdings.changed_kernels(before.kernels, now.kernels), named)),
            authors=known.by_seq,
            noise=noise,
            notes=tuple(self._notes),
        )

    def _copies(self, since: float) -> list[HostCopy]:
        """Return the writes into the session from this host since a time."""
        wanted = journal_query.Filter(kinds=(authors.HOST_KIND,), since=since)
        entries = journal_query.read(self._context, self._row.id, wanted)
        return authors.host_copies(entries)

    def _note_kernels(self, before: Holdings, now: Holdings) -> None:
        for name, kernel in now.kernels.items():
            old = before.kernels.get(name)
            if kernel.names is not None and kernel.stale:
                self._notes.append(f"the names in kernel {name} are from before the running cell")
            if kernel.names is None or (old is not None and old.names is None):
                when = "now" if kernel.names is None else "then"
                if kernel.epoch or (old and old.epoch):
                    self._notes.append(f"the names in kernel {name} were not recorded for {when}")


def _ascribed(
    found: list[ProcessChange], now: Holdings, entries: list[EntryTable], known: Authors
) -> list[ProcessChange]:
    exits = {entry.get("pid"): entry for entry in entries if entry.get("kind") == "process_exited"}
    result = []
    for one in found:
        if one.change == "deleted":
            result.append(replace(one, ended=_ended(exits.get(one.pid, {}))))
        else:
            result.append(replace(one, by=known.of(now.processes[one.pid].origin)))
    return result


def _ended(entry: EntryTable) -> str:
    if entry.get("cause") == "oom":
        return "out of memory"
    if isinstance(number := entry.get("signal"), int | str):
        return f"signal {number}"
    return f"exit {code}" if isinstance(code := entry.get("exit_code"), int) else ""


def _named(
    found: list[NamedChange], who: Mapping[tuple[str, str, str], tuple[int, ...]]
) -> list[NamedChange]:
    result = [replace(one, by=who.get((one.kind, one.where, one.name), ())) for one in found]
    return sorted(result, key=lambda one: (one.where, one.by))


def _seq_at(entry: EntryTable) -> tuple[int, float]:
    return wire_fields.integer(entry, "seq"), wire_fields.number(entry, "at")


def _restored(entries: list[EntryTable]) -> float | None:
    """Return when the programs of the present container continued, if it was restored live."""
    woken = [entry for entry in entries if entry.get("kind") == "woken"]
    live = [_seq_at(entry) for entry in woken if entry.get("event") == "restored" and not entry.get("begins")]
    return max(live)[1] if live else None


def _entry(frame: Frame) -> EntryTable:
    entry = wire_fields.body(frame)
    _seq_at(entry)  # others count on both
    return entry
