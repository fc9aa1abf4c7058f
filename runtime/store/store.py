"""The store: records of sessions, snapshots and operations, in SQLite.

Methods are named after what happens to a session or a snapshot; nothing here knows engines or guests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from sqlalchemy import Connection, Row, delete, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from holdfast.base import ids
from holdfast.base.resolve import resolve
from holdfast.errors import InvalidArgument, SessionExists, SessionNotFound, SnapshotNotFound
from holdfast.runtime.store import peek, schema
from holdfast.runtime.store.database import Database, Leaving
from holdfast.runtime.store.journal_entries import Entries
from holdfast.runtime.store.operations import Operations
from holdfast.runtime.store.row_details import SessionDetails, SnapshotDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow, columns

if TYPE_CHECKING:
    from holdfast.runtime.store.row_details import SessionKeys, SnapshotKeys
    from holdfast.runtime.store.rows import SessionState, SnapshotKind


_STATES_OF_SESSIONS = frozenset({"creating", "running", "suspended", "dead", "removed"})
_STATES = frozenset({"pending", "ready", "damaged"})
_VALID = schema.snapshots.c.state != "pending"


class Store:
    """Sessions, snapshots and operations. Safe to use from several processes and threads at once."""

    def __init__(self, database: Database) -> None:
        self._db = database

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
            details=details or SessionDetails(),
        )
        try:
            with self._db.writing() as db:
                db.execute(insert(schema.sessions).values(**columns(row)))
        except IntegrityError:
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
            pairs = [(each.id, each.name) for each in db.exec_driver_sql(peek.MATCHES, peek.bounds(ref))]
            try:
                found = resolve(ref, pairs)
            except SessionNotFound as error:
                asked = {"ref": peek.bounds(ref)["ref"]}
                raise peek.elsewhere(db.exec_driver_sql(peek.MOVED, asked).first()) or error from None
        query = select(schema.sessions).where(schema.sessions.c.id == found)
        return next(iter(self._db.rows(query, _session)))

    def session_named(self, name: str) -> SessionRow | None:
        """Return the session with exactly this name, or None."""
        table = schema.sessions
        query = select(table).where(table.c.name == name).where(text("state != 'removed'"))
        return next(iter(self._db.rows(query, _session)), None)

    def find_session(self, session_id: str | None, *, removed: bool = False) -> SessionRow | None:
        """Return the session with exactly this id, or None; a removed one only if requested."""
        table = schema.sessions
        query = select(table).where(table.c.id == session_id)
        if not removed:
            query = query.where(table.c.state != "removed")
        return next(iter(self._db.rows(query, _session)), None)

    def sessions(self, *, removed: bool = False) -> list[SessionRow]:
        """Return all sessions, oldest first; removed ones only if requested."""
        query = select(schema.sessions).order_by(schema.sessions.c.created_at, schema.sessions.c.id)
        if not removed:
            query = query.where(schema.sessions.c.state != "removed")
        return self._db.rows(query, _session)

    def update_session(self, session_id: str, **changes: Any) -> SessionRow:
        """Change columns of a session (state, container_id, generation, parent_snapshot_id, options, image).

        Raises:
            SessionNotFound: there is no such id, or the session was removed meanwhile.
            SessionExists: it comes back to life under a name that is taken.
        """
        table = schema.sessions
        try:
            with self._db.writing() as db:
                there = (table.c.id == session_id) & (table.c.state != "removed")
                changed = db.execute(update(table).where(there).values(**changes)).rowcount
                row = db.execute(select(table).where(table.c.id == session_id)).one_or_none()
        except IntegrityError:
            raise SessionExists("cannot rename session: the name is taken") from None
        if row is None or not changed:
            raise SessionNotFound(f"cannot change session {session_id}: it was removed")
        return _session(row)

    def keep_details(self, session_id: str, **changes: Unpack[SessionKeys]) -> None:
        """Change some details of a session, even of a removed one; None removes a detail."""
        self._change_details(session_id, lambda found: found.plus(**changes))

    def change_detail(self, session_id: str, key: str, how: Callable[[Any], Any]) -> None:
        """Change one detail of a session by a function of its value, while no other process changes any."""
        self._change_details(session_id, lambda found: SessionDetails({**found, key: how(found.get(key))}))

    def _change_details(self, session_id: str, how: Callable[[SessionDetails], SessionDetails]) -> None:
        """Change details in one step, so that no change is lost. A session that is gone is skipped."""
        table = schema.sessions
        with self._db.writing() as db:
            row = db.execute(select(table.c.details).where(table.c.id == session_id)).first()
            if row is not None:
                kept = how(SessionDetails(row.details))
                db.execute(update(table).where(table.c.id == session_id).values(details=kept))

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
                db.execute(insert(schema.snapshots).values(**columns(row)))
        except IntegrityError:
            raise InvalidArgument(
                f"cannot label snapshot '{label}': the label is taken",
                hint=f"choose another label, or `holdfast rmi {label}`",
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
        return rows[resolve(ref, ((row.id, row.name) for row in rows.values()), "snapshot")]

    def find_snapshot(self, snapshot_id: str | None) -> SnapshotRow | None:
        """Return the snapshot with exactly this id, unfinished ones left out; None if there is none."""
        table = schema.snapshots
        query = select(table).where((table.c.id == snapshot_id) & _VALID)
        return next(iter(self._db.rows(query, _snapshot)), None)

    def latest_snapshot(self, session_id: str) -> SnapshotRow | None:
        """Return the newest snapshot of a session, unfinished ones left out; None if it has none."""
        table = schema.snapshots
        query = select(table).where((table.c.session_id == session_id) & _VALID)
        newest = query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(1)
        return next(iter(self._db.rows(newest, _snapshot)), None)

    def snapshots(self, session_id: str | None = None, *, pending: bool = False) -> list[SnapshotRow]:
        """Return all snapshots, or those of one session, oldest first; unfinished ones only if requested."""
        query = select(schema.snapshots).order_by(schema.snapshots.c.created_at, schema.snapshots.c.id)
        if session_id is not None:
            query = query.where(schema.snapshots.c.session_id == session_id)
        if not pending:
            query = query.where(_VALID)
        return self._db.rows(query, _snapshot)

    def update_snapshot(self, snapshot_id: str, **changes: Any) -> SnapshotRow:
        """Change columns of a snapshot (state, image_id, bytes, details, parent_snapshot_id, pinned).

        Raises:
            SnapshotNotFound: there is no such id.
        """
        table = schema.snapshots
        with self._db.writing() as db:
            db.execute(update(table).where(table.c.id == snapshot_id).values(**changes))
            row = db.execute(select(table).where(table.c.id == snapshot_id)).one_or_none()
        if row is None:
            raise SnapshotNotFound(f"cannot change snapshot {snapshot_id}: it was removed")
        return _snapshot(row)

    def keep_snapshot_details(self, snapshot_id: str, **changes: Unpack[SnapshotKeys]) -> None:
        """Change some details of a snapshot in one step; one that is gone is skipped."""
        table = schema.snapshots
        with self._db.writing() as db:
            row = db.execute(select(table.c.details).where(table.c.id == snapshot_id)).first()
            if row is not None:
                kept = SnapshotDetails(row.details).plus(**changes)
                db.execute(update(table).where(table.c.id == snapshot_id).values(details=kept))

    def mark_template(self, snapshot_id: str, *, instead_of: str | None = None) -> SnapshotRow:
        """Make a snapshot a template, in one step.

        With `instead_of` it gets the label of that template, an ordinary snapshot from then on.

        Raises:
            SnapshotNotFound: there is no such id.
        """
        table = schema.snapshots
        with self._db.writing() as db:
            before = db.execute(select(table).where(table.c.id == instead_of)).one_or_none()
            if before is not None:
                kept = SnapshotDetails(before.details).plus(template=None)
                plain = {"label": None, "pinned": False, "details": kept}
                db.execute(update(table).where(table.c.id == before.id).values(**plain))
            row = db.execute(select(table).where(table.c.id == snapshot_id)).one_or_none()
            if row is None:
                raise SnapshotNotFound(f"cannot make a template of snapshot {snapshot_id}: it was removed")
            changes = {"pinned": True, "details": SnapshotDetails(row.details).plus(template=True)}
            changes |= {} if before is None else {"label": before.label}
            db.execute(update(table).where(table.c.id == snapshot_id).values(**changes))
            row = db.execute(select(table).where(table.c.id == snapshot_id)).one()
        return _snapshot(row)

    def forget_snapshot(self, snapshot_id: str) -> None:
        """Delete the row of a snapshot that is gone or was never completed; its successors get its parent.

        Does nothing the second time.
        """
        with self._db.writing() as db:
            _close_gap(db, snapshot_id)
            db.execute(delete(schema.snapshots).where(schema.snapshots.c.id == snapshot_id))

    def together(self) -> AbstractContextManager[None]:
        """Make what this thread reads and writes in the block one transaction; see `Database.together`."""
        return self._db.together()

    @property
    def operations(self) -> Operations:
        """Operations in progress, and ended ones."""
        return Operations(self._db)

    @property
    def entries(self) -> Entries:
        """The entries of journals."""
        return Entries(self._db)

    @property
    def database(self) -> Database:
        """The database, for `lives`."""
        return self._db


def _session(row: Row[Any]) -> SessionRow:
    _whole(row.options)
    if row.state not in _STATES_OF_SESSIONS or not isinstance(row.generation, int):
        raise ValueError("it has no such value")
    return SessionRow(**{**row._mapping, "details": SessionDetails(_whole(row.details))})


def _snapshot(row: Row[Any]) -> SnapshotRow:
    if row.state not in _STATES or not isinstance(row.bytes, int):
        raise ValueError("it has no such value")
    return SnapshotRow(**{**row._mapping, "details": SnapshotDetails(_whole(row.details))})


def _whole(table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError("it is no table")
    return table


def _close_gap(db: Connection, snapshot_id: str) -> None:
    """Give the successors of a snapshot its predecessor."""
    sessions, snapshots = schema.sessions, schema.snapshots
    found = db.execute(select(snapshots.c.parent_snapshot_id).where(snapshots.c.id == snapshot_id)).first()
    if found is None:
        return
    above = found.parent_snapshot_id
    children = update(snapshots).where(snapshots.c.parent_snapshot_id == snapshot_id)
    db.execute(children.values(parent_snapshot_id=above))
    columns = select(sessions.c.id, sessions.c.parent_snapshot_id, sessions.c.details)
    for row in db.execute(columns.where(sessions.c.parent_snapshot_id.is_not(None))).all():
        details = SessionDetails(row.details or {})
        if snapshot_id in (row.parent_snapshot_id, details.ancestor):
            changed = details.plus(ancestor=above)
            db.execute(update(sessions).where(sessions.c.id == row.id).values(details=changed))
