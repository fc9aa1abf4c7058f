"""The store: records of sessions, snapshots and operations, in SQLite.

Methods are named after what happens to a session or a snapshot; nothing here knows engines or guests.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.base import ids
from holdfast.base.resolve import resolve
from holdfast.errors import InvalidArgument, SessionExists, SessionNotFound, SnapshotNotFound
from holdfast.runtime.store import peek, quotas, schema
from holdfast.runtime.store.database import Database, Leaving
from holdfast.runtime.store.journal_entries import Entries
from holdfast.runtime.store.operations import Operations
from holdfast.runtime.store.row_details import SessionDetails, SnapshotDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow, columns
from holdfast.runtime.store.statements import Row, Statements
from holdfast.runtime.store.waiting import WaitingSessions

if TYPE_CHECKING:
    from holdfast.runtime.store.row_details import SessionKeys, SnapshotKeys
    from holdfast.runtime.store.rows import SessionState, SnapshotKind


_STATES_OF_SESSIONS = frozenset({"creating", "running", "suspended", "dead", "removed"})
_STATES = frozenset({"pending", "ready", "damaged"})
_VALID = "state != 'pending'"
_PRESENT = "state != 'removed'"
_IN_ORDER = "ORDER BY created_at, id"


class Store:
    """Sessions, snapshots and operations. Safe to use from several processes and threads."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.user = ""
        """The user who makes the sessions that are added, for quotas; empty if that is not known."""

    @classmethod
    def open(cls, path: Path, leaving: Leaving | None = None) -> Store:
        """Open the database at path; make it if it is missing. See `Database.open`."""
        return cls(Database.open(path, leaving))

    # Sessions.

    def add_session(
        self,
        name: str,
        image: str,
        options: dict[str, Any],
        *,
        session_id: str | None = None,
        parent_snapshot_id: str | None = None,
        generation: int = 0,
        state: SessionState = "creating",
        details: SessionDetails | None = None,
    ) -> SessionRow:
        """Reserve the name and record a session that is about to be made.

        Raises:
            SessionExists: the name is taken.
            QuotaReached: that is more than the quota of the home.
        """
        row = SessionRow(
            id=session_id or ids.new_id(),
            name=name,
            state=state,
            image=image,
            created_at=datetime.now(UTC),
            parent_snapshot_id=parent_snapshot_id,
            generation=generation,
            options=options,
            details=self.made_by_user(details or SessionDetails()),
        )
        try:
            with self._db.writing() as db:
                db.insert(schema.SESSIONS, columns(row))
                if state != "removed":
                    quotas.check(db, self._db.folder, self.user)
        except sqlite3.IntegrityError:
            raise SessionExists(
                f"cannot name session '{name}': the name is taken",
                hint=f"choose a different name, or `holdfast rm {name}`",
            ) from None
        return row

    def session(self, ref: str) -> SessionRow:
        """Return the session with this name, id or unique prefix of an id.

        Raises:
            SessionNotFound, InvalidArgument: none or several match.
        """
        with self._db.reading() as db:
            pairs = db.run(peek.MATCHES, peek.bounds(ref)).fetchall()
            try:
                found = resolve(ref, pairs)
            except SessionNotFound as error:
                asked = {"ref": peek.bounds(ref)["ref"]}
                raise peek.elsewhere(db.run(peek.MOVED, asked).fetchone()) or error from None
        return self._db.rows(_session, schema.SESSIONS, "WHERE id = ?", found)[0]

    def session_named(self, name: str) -> SessionRow | None:
        """Return the session with exactly this name, or None."""
        found = self._db.rows(_session, schema.SESSIONS, f"WHERE name = ? AND {_PRESENT}", name)
        return next(iter(found), None)

    def find_session(self, session_id: str | None, *, removed: bool = False) -> SessionRow | None:
        """Return the session with exactly this id, or None; a removed one only if requested."""
        present = "" if removed else f"AND {_PRESENT}"
        found = self._db.rows(_session, schema.SESSIONS, f"WHERE id = ? {present}", session_id)
        return next(iter(found), None)

    def sessions(self, *, removed: bool = False) -> list[SessionRow]:
        """Return all sessions, oldest first; removed ones only if requested."""
        present = "" if removed else f"WHERE {_PRESENT}"
        return self._db.rows(_session, schema.SESSIONS, f"{present} {_IN_ORDER}")

    def fresh_sessions(self, most: int) -> list[SessionRow]:
        """Return sessions that were not started from a snapshot, latest first; removed ones as well."""
        latest = "WHERE generation = 0 AND parent_snapshot_id IS NULL ORDER BY created_at DESC LIMIT ?"
        return self._db.rows(_session, schema.SESSIONS, latest, most)

    def update_session(self, session_id: str, **changes: Any) -> SessionRow:
        """Change columns of a session (state, container_id, generation, parent_snapshot_id, options, image).

        Raises:
            SessionNotFound: there is no such id, or the session was removed meanwhile.
            SessionExists: it comes back to life under a name that is taken.
        """
        try:
            with self._db.writing() as db:
                changed = db.update(schema.SESSIONS, changes, f"id = ? AND {_PRESENT}", session_id)
                row = db.row(schema.SESSIONS, session_id)
        except sqlite3.IntegrityError:
            raise SessionExists("cannot rename session: the name is taken") from None
        if row is None or not changed:
            raise SessionNotFound(f"cannot change session {session_id}: it was removed")
        return _session(row)

    def keep_details(self, session_id: str, **changes: Unpack[SessionKeys]) -> None:
        """Change some details of a session, even of a removed one; None removes a detail."""
        self._change_details(session_id, lambda found: found.plus(**changes))

    def change_detail(self, session_id: str, key: str, how: Callable[[Any], Any]) -> None:
        """Change one detail of a session by a function of its value, without interference by other
        processes."""
        self._change_details(session_id, lambda found: SessionDetails({**found, key: how(found.get(key))}))

    def _change_details(self, session_id: str, how: Callable[[SessionDetails], SessionDetails]) -> None:
        """Change details in one step, without losing concurrent changes. A removed session is skipped."""
        with self._db.writing() as db:
            row = db.row(schema.SESSIONS, session_id, "details")
            if row is not None:
                kept = how(SessionDetails(row["details"]))
                db.update(schema.SESSIONS, {"details": kept}, "id = ?", session_id)

    # Snapshots.

    def add_snapshot(
        self,
        session_id: str,
        kind: SnapshotKind,
        *,
        label: str | None = None,
        snapshot_id: str | None = None,
        parent_snapshot_id: str | None = None,
        details: SnapshotDetails | None = None,
        reason: str | None = None,
    ) -> SnapshotRow:
        """Record a snapshot that is about to be taken: `pending`, and not listed before it is `ready`.

        Raises:
            InvalidArgument: the label is taken or not a valid name.
        """
        if label is not None:
            ids.check_name(label, "snapshot")
        row = SnapshotRow(
            id=snapshot_id or ids.new_id(),
            label=label,
            kind=kind,
            state="pending",
            session_id=session_id,
            created_at=datetime.now(UTC),
            parent_snapshot_id=parent_snapshot_id,
            details=details or SnapshotDetails(),
            reason=reason,
        )
        try:
            with self._db.writing() as db:
                db.insert(schema.SNAPSHOTS, columns(row))
        except sqlite3.IntegrityError:
            raise InvalidArgument(
                f"cannot label snapshot '{label}': the label is taken",
                hint=f"choose a different label, or `holdfast rmi {label}`",
            ) from None
        return row

    def snapshot(self, ref: str) -> SnapshotRow:
        """Return the snapshot with this label, id or unique prefix of an id.

        Raises:
            SnapshotNotFound, InvalidArgument: none or several match.
        """
        exact = self.find_snapshot(ref)
        if exact is not None:  # an exact id wins (`resolve`), and is what the library uses
            return exact
        rows = {row.id: row for row in self.snapshots()}
        try:
            return rows[resolve(ref, ((row.id, row.name) for row in rows.values()), "snapshot")]
        except SnapshotNotFound as error:
            if any(session.name == ref for session in self.sessions()):
                error.hint = f"`{ref}` is a session: `holdfast fork {ref}` copies its present; {error.hint}"
            raise

    def find_snapshot(self, snapshot_id: str | None) -> SnapshotRow | None:
        """Return the snapshot with exactly this id, unfinished ones left out; None if there is none."""
        found = self._db.rows(_snapshot, schema.SNAPSHOTS, f"WHERE id = ? AND {_VALID}", snapshot_id)
        return next(iter(found), None)

    def latest_snapshot(self, session_id: str) -> SnapshotRow | None:
        """Return the newest snapshot of a session, unfinished ones left out; None if it has none."""
        newest = f"WHERE session_id = ? AND {_VALID} ORDER BY created_at DESC, id DESC LIMIT 1"
        return next(iter(self._db.rows(_snapshot, schema.SNAPSHOTS, newest, session_id)), None)

    def snapshots(self, session_id: str | None = None, *, pending: bool = False) -> list[SnapshotRow]:
        """Return all snapshots, or one session's, oldest first; unfinished ones only if requested."""
        valid = "TRUE" if pending else _VALID
        if session_id is None:
            return self._db.rows(_snapshot, schema.SNAPSHOTS, f"WHERE {valid} {_IN_ORDER}")
        mine = f"WHERE session_id = ? AND {valid} {_IN_ORDER}"
        return self._db.rows(_snapshot, schema.SNAPSHOTS, mine, session_id)

    def update_snapshot(self, snapshot_id: str, **changes: Any) -> SnapshotRow:
        """Change columns of a snapshot (state, image_id, bytes, details, parent_snapshot_id, pinned).

        Raises:
            SnapshotNotFound: there is no such id.
        """
        with self._db.writing() as db:
            db.update(schema.SNAPSHOTS, changes, "id = ?", snapshot_id)
            row = db.row(schema.SNAPSHOTS, snapshot_id)
        if row is None:
            raise SnapshotNotFound(f"cannot change snapshot {snapshot_id}: it was removed")
        return _snapshot(row)

    def keep_snapshot_details(self, snapshot_id: str, **changes: Unpack[SnapshotKeys]) -> None:
        """Change some details of a snapshot in one step; a removed one is skipped."""
        with self._db.writing() as db:
            row = db.row(schema.SNAPSHOTS, snapshot_id, "details")
            if row is not None:
                kept = SnapshotDetails(row["details"]).plus(**changes)
                db.update(schema.SNAPSHOTS, {"details": kept}, "id = ?", snapshot_id)

    def mark_template(self, snapshot_id: str, *, instead_of: str | None = None) -> SnapshotRow:
        """Make a snapshot a template, in one step.

        With `instead_of` it gets the label of that template, an ordinary snapshot from then on.

        Raises:
            SnapshotNotFound: there is no such id.
        """
        table = schema.SNAPSHOTS
        with self._db.writing() as db:
            before = db.row(table, instead_of)
            if before is not None:
                kept = SnapshotDetails(before["details"]).plus(template=None)
                plain = {"label": None, "pinned": False, "details": kept}
                db.update(table, plain, "id = ?", before["id"])
            row = db.row(table, snapshot_id)
            if row is None:
                raise SnapshotNotFound(f"cannot make a template of snapshot {snapshot_id}: it was removed")
            details = SnapshotDetails(row["details"]).plus(template=True)
            changes = {"pinned": True, "details": details}
            changes |= {} if before is None else {"label": before["label"]}
            db.update(table, changes, "id = ?", snapshot_id)
            return _snapshot({**row, **changes})

    def forget_snapshot(self, snapshot_id: str) -> None:
        """Delete the row of a snapshot that was removed or never completed; its successors get its parent.

        Does nothing the second time.
        """
        with self._db.writing() as db:
            _close_gap(db, snapshot_id)
            db.delete(schema.SNAPSHOTS, "id = ?", snapshot_id)

    def together(self) -> AbstractContextManager[None]:
        """Make this thread's reads and writes in the block one transaction; see `Database.together`."""
        return self._db.together()

    @property
    def operations(self) -> Operations:
        """Operations in progress, and ended ones."""
        return Operations(self._db)

    @property
    def waiting(self) -> WaitingSessions:
        """Sessions that wait in the pool; no other query counts them."""
        return WaitingSessions(self._db)

    @property
    def entries(self) -> Entries:
        """The entries of journals."""
        return Entries(self._db)

    @property
    def database(self) -> Database:
        """The database, for `lives`."""
        return self._db

    def made_by_user(self, details: SessionDetails) -> SessionDetails:
        """Return the details of a session that is about to be made, with the user who makes it."""
        return details.plus(by=self.user) if self.user else details

    def usage(self, user: str = "") -> quotas.QuotaUsage:
        """Return the present amounts that the quota of the home, or of a user, limits."""
        with self._db.reading() as db:
            return quotas.usage(db, user)

    def check_running(self, user: str = "") -> None:
        """Check that a session of a user can run whose resumption this transaction records.

        Raises:
            QuotaReached: that is more than the quota of the home or of the user.
        """
        with self._db.writing() as db:
            quotas.check(db, self._db.folder, user)


def _session(row: Row) -> SessionRow:
    _whole(row["options"])
    if row["state"] not in _STATES_OF_SESSIONS or not isinstance(row["generation"], int):
        raise ValueError("it does not have that value")
    return SessionRow(**{**row, "details": SessionDetails(_whole(row["details"]))})


def _snapshot(row: Row) -> SnapshotRow:
    if row["state"] not in _STATES or not isinstance(row["bytes"], int):
        raise ValueError("it does not have that value")
    return SnapshotRow(**{**row, "details": SnapshotDetails(_whole(row["details"]))})


def _whole(table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError("it is not a table")
    return table


def _close_gap(db: Statements, snapshot_id: str) -> None:
    """Give the successors of a snapshot its predecessor."""
    found = db.row(schema.SNAPSHOTS, snapshot_id, "parent_snapshot_id")
    if found is None:
        return
    above = {"parent_snapshot_id": found["parent_snapshot_id"]}
    db.update(schema.SNAPSHOTS, above, "parent_snapshot_id = ?", snapshot_id)
    wanted = ("id", "parent_snapshot_id", "details")
    for row in list(db.rows(schema.SESSIONS, "WHERE parent_snapshot_id IS NOT NULL", only=wanted)):
        details = SessionDetails(row["details"] or {})
        if snapshot_id in (row["parent_snapshot_id"], details.ancestor):
            changed = details.plus(ancestor=found["parent_snapshot_id"])
            db.update(schema.SESSIONS, {"details": changed}, "id = ?", row["id"])
