"""The queries of frequent commands, answered without the rest of the store.

They write nothing, and load little: running a command in a session takes 10 ms. Which session is meant, and
whether anything awaits recovery, is therefore read here. `None` always means "ask the store": it makes the
file, checks its version and explains errors.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

from holdfast.base.resolve import resolve
from holdfast.errors import SessionNotFound
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike
    from typing import Any

    Place = str | PathLike[str]

_LITERAL = frozenset(b"/-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
VERSION = 5  # kept equal to schema.VERSION, which loads all tables
BUSY_SECONDS = {"ro": 10.0, "rw": 60.0}
"""Seconds to wait for a process that writes: a question of a frequent command, and a change."""
_STATES = ("running", "suspended", "dead", "creating")
MATCHES = " UNION ".join(
    f"SELECT id, name FROM sessions WHERE {match} AND state != 'removed'"  # noqa: S608
    for match in ("id = :ref", "name = :ref", "id >= :ref AND id < :end")
)
"""Finds everything a reference can mean, each part by an index: a home can have ten thousand sessions."""
MOVED = (
    "SELECT name, CASE WHEN json_valid(details) THEN json_extract(details, '$.moved.to') END AS place, "
    "CASE WHEN json_valid(details) THEN json_extract(details, '$.moved.id') END FROM sessions "
    "WHERE (id = :ref OR name = :ref) AND state = 'removed' AND place IS NOT NULL "
    "ORDER BY created_at DESC LIMIT 1"
)
"""Finds where a session is that has moved to another machine; asked if nothing else was found."""
_COLUMNS = (
    "id, name, state, image, created_at, container_id, parent_snapshot_id, generation, options, details"
)


def abandoned(database: Place) -> bool | None:
    """Check whether a process that has ended left an operation unfinished."""
    try:
        with closing(opened(database)) as db:
            found = db.execute(
                "SELECT owner_pid, owner_start FROM operations WHERE state = 'intent'"
            ).fetchall()
    except sqlite3.Error:
        return None
    if not found:
        return False
    from holdfast.runtime.store import owner

    return any(not owner.alive(pid, start) for pid, start in found)


def awaited(database: Place, kinds: Iterable[str], since: datetime) -> bool:
    """Check whether a live process carries out an operation of some kinds that began after a time.

    False if that cannot be read.
    """
    asked = list(kinds)
    marks = ", ".join("?" * len(asked))
    which = f"state = 'intent' AND kind IN ({marks}) AND started_at > ?"
    query = f"SELECT owner_pid, owner_start FROM operations WHERE {which}"  # noqa: S608
    begun = since.astimezone(UTC).isoformat(timespec="microseconds")
    try:
        with closing(opened(database)) as db:
            found = db.execute(query, (*asked, begun)).fetchall()
    except sqlite3.Error:
        return False
    if not found:
        return False
    from holdfast.runtime.store import owner

    return any(owner.alive(pid, start) for pid, start in found)


def ended(database: Place, operations: Iterable[str]) -> list[str]:
    """Return the operations among these that have ended; empty if that cannot be read."""
    asked = list(operations)
    marks = ", ".join("?" * len(asked))
    query = f"SELECT id FROM operations WHERE state != 'intent' AND id IN ({marks})"  # noqa: S608
    try:
        with closing(opened(database)) as db:
            return [str(id_) for (id_,) in db.execute(query, asked)]
    except sqlite3.Error:
        return []


def session(database: Place, ref: str) -> SessionRow | None:
    """Return the session that `ref` refers to.

    Raises:
        SessionNotFound, InvalidArgument: as for `Store.session`.
    """
    try:
        with closing(opened(database)) as db:
            return session_in(db, ref)
    except sqlite3.Error:
        return None


def session_in(db: sqlite3.Connection, ref: str) -> SessionRow | None:
    """Return the session that `ref` refers to in an open database; raises as `session` does.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    try:
        found = resolve(ref, db.execute(MATCHES, bounds(ref)).fetchall())
    except SessionNotFound as error:
        raise elsewhere(db.execute(MOVED, {"ref": bounds(ref)["ref"]}).fetchone()) or error from None
    row = db.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (found,)).fetchone()  # noqa: S608
    return None if row is None else _row(row)


def elsewhere(moved: Sequence[Any] | None) -> SessionNotFound | None:
    """Return the error for a session that has moved to another machine, from a row of `MOVED`; or None."""
    if moved is None:
        return None
    from holdfast.base.text import plain

    name, to, session_id = (plain(str(each), 200) for each in moved)
    return SessionNotFound(
        f"cannot find session '{name}' here: it has moved to {to}",
        hint=f"its name on that machine is also {name}, and its id {session_id}",
    )


def bounds(ref: str) -> dict[str, str]:
    """Return the values for `MATCHES`: matches lie between the reference and the end.

    Names and ids are of ASCII (`base/ids.py`); not all else that a command line has can be put into a query.
    """
    plain = ref if ref.isascii() else ""
    return {"ref": plain, "end": plain[:-1] + chr(ord(plain[-1]) + 1) if plain else ""}


def sessions(database: Place) -> list[SessionRow] | None:
    """Return all sessions but removed ones, oldest first."""
    query = f"SELECT {_COLUMNS} FROM sessions WHERE state != 'removed' ORDER BY created_at, id"  # noqa: S608
    try:
        with closing(opened(database)) as db:
            found = [_row(row) for row in db.execute(query)]
    except sqlite3.Error:
        return None
    rows = [row for row in found if row is not None]
    return rows if len(rows) == len(found) else None


def _row(row: tuple[Any, ...]) -> SessionRow | None:
    identity, name, state, image, created, container, parent, generation, options, details = row
    if state not in _STATES:
        return None
    try:
        return SessionRow(
            identity,
            name,
            state,
            image,
            datetime.fromisoformat(created),
            container,
            parent,
            generation,
            dict(json.loads(options)),
            SessionDetails(json.loads(details)),
        )
    except (TypeError, ValueError):
        return None


def last_moment(database: Place, row: SessionRow) -> int | None:
    """Return the number of a session's last journal entry before it was last captured or restored; None if
    never.

    0 if the snapshot does not record it.
    """
    query = (
        "SELECT details FROM snapshots WHERE state != 'pending' AND (id = :parent OR (session_id = :session "
        "AND json_extract(details, '$.generation') = :generation)) ORDER BY created_at DESC, id DESC LIMIT 1"
    )
    wanted = {"parent": row.parent_snapshot_id, "session": row.id, "generation": row.generation}
    try:
        with closing(opened(database)) as db:
            found = db.execute(query, wanted).fetchone()
        return None if found is None else int(json.loads(found[0])["moment"]["journal_seq"])
    except (sqlite3.Error, ValueError, TypeError, LookupError):
        return 0


def names(database: Place, table: str) -> list[str]:
    """Return names for completion, of the table `sessions` or `snapshots`; empty if they cannot be read."""
    queries = {
        "sessions": "SELECT name FROM sessions WHERE state != 'removed'",
        "snapshots": "SELECT COALESCE(label, id) FROM snapshots WHERE state != 'pending'",
    }
    try:
        with closing(opened(database)) as db:
            return sorted(name for (name,) in db.execute(queries[table]))
    except sqlite3.Error:
        return []


def opened(database: Place, mode: str = "ro", *, one_thread: bool = True) -> sqlite3.Connection:
    """Open a database of this version, to read it (`ro`) or also to write it (`rw`).

    With `one_thread` false, callers see to it that threads use it one after the other.

    Raises:
        sqlite3.Error: it cannot be opened, or is of another version.
    """
    # Every byte that has a meaning in an address is written as a number (https://sqlite.org/uri.html).
    path = "".join(chr(byte) if byte in _LITERAL else f"%{byte:02X}" for byte in os.fsencode(database))
    db = sqlite3.connect(
        f"file:{path}?mode={mode}", uri=True, timeout=BUSY_SECONDS[mode], check_same_thread=one_thread
    )
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise sqlite3.DatabaseError("another format")
    except BaseException:
        db.close()
        raise
    return db
