"""Damaged values of the store are set aside, one by one, so that all other rows stay usable.

A bit that flips in one row must not take a home from its owner. A row with a value that cannot be read is
written to a file next to the database, as it was, and gets a value that can. It says so: a snapshot is
damaged, a session cannot be reached, and both can be removed by name; an operation is not undone any more.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.base import ids, private_files
from holdfast.runtime.store import schema
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.schema import Column, StoreTable
from holdfast.runtime.store.statements import Statements

ASIDE = "damaged-rows.jsonl"
_EPOCH = datetime.fromtimestamp(0, UTC).isoformat(timespec="microseconds")
KNOWN: Mapping[tuple[str, str], frozenset[str]] = {
    ("sessions", "state"): frozenset({"creating", "running", "suspended", "dead", "removed"}),
    ("snapshots", "state"): frozenset({"pending", "ready", "damaged"}),
    ("snapshots", "kind"): frozenset({"live", "filesystem"}),
    ("operations", "state"): frozenset({"intent", "done", "failed"}),
    ("operations", "kind"): frozenset(OperationKind),
}
"""The values that some columns may have. A version of before takes another for damage, so a new one raises
the version of the schema: then it refuses the home, and changes nothing in it."""
_INSTEAD: Mapping[tuple[str, str], Any] = {
    ("sessions", "state"): "dead",
    ("sessions", "image"): "",
    ("snapshots", "state"): "damaged",
    ("snapshots", "kind"): "live",
    ("operations", "state"): "failed",
    ("operations", "kind"): OperationKind.NEW.value,
    ("operations", "owner_start"): "",
    ("entries", "kind"): "damaged",
    ("entries", "body"): '{"damaged":true}',
}
"""The value of a column that cannot be empty; others by their form."""
_EMPTY = {"json": "{}", "time": _EPOCH, "text": "", "long": ""}
"""The same by form; a number or a flag is 0."""
_HARMLESS = frozenset({"created_at", "label", "reason", "pinned", "bytes", "parent_snapshot_id"})
"""Columns of a snapshot without which it is as good as before."""


def mend(db: Statements, database: Path) -> list[str]:
    """Set all damaged values aside, in a transaction that writes; return their places, in words.

    Raises:
        OSError: the file next to the database cannot be written; nothing is changed.
    """
    found: list[str] = []
    for table in schema.TABLES:
        for rowid, values, damaged in list(_damaged(db, table)):
            _keep(database.with_name(ASIDE), table, values)
            name = _name(table, values, damaged, rowid)
            found.append(f"{table.name[:-1]} {name}: {', '.join(sorted(damaged))}")
            _replace(db, table, rowid, values, damaged, name)
    return found


def _damaged(db: Statements, table: StoreTable) -> Any:
    """Yield rows with unreadable values: their number, all values as bytes, and the unreadable ones."""
    columns = ", ".join(f'CAST("{name}" AS BLOB)' for name in table.columns)
    for rowid, *raw in db.run(f'SELECT rowid, {columns} FROM "{table.name}"'):  # noqa: S608
        values = dict(zip(table.columns, raw, strict=True))
        damaged = {
            each.name for each in table.columns.values() if not _is_whole(table, each, values[each.name])
        }
        if damaged:
            yield rowid, values, damaged


def _is_whole(table: StoreTable, column: Column, value: bytes | None) -> bool:
    if value is None:
        return column.nullable
    try:
        text = value.decode()
        if (known := KNOWN.get((table.name, column.name))) is not None:
            return text in known
        reader = _READERS.get(column.form)
        if reader is not None:
            reader(text)
        elif (table.name, column.name) == ("entries", "body"):
            _table(text)
    except ValueError:
        return False
    return True


def _table(text: str) -> None:
    if not isinstance(json.loads(text), dict):
        raise ValueError("it is not a table")


def _flag(text: str) -> None:
    if text not in ("0", "1"):
        raise ValueError("it is neither true nor false")


_READERS: Mapping[str, Callable[[str], Any]] = {
    "json": _table,
    "time": datetime.fromisoformat,
    "flag": _flag,
    "integer": int,
    "big": int,
    "real": float,
}


def _name(table: StoreTable, values: Mapping[str, bytes | None], damaged: set[str], rowid: int) -> str:
    """Return a name for a row, for people."""
    for key in ("label", "name", "id", "session_id"):
        value = values.get(key)
        if value is not None and key not in damaged:
            return value.decode("utf-8", "replace")
    return f"number {rowid}"


def _keep(file: Path, table: StoreTable, values: Mapping[str, bytes | None]) -> None:
    """Write a row as it was to the end of a file."""
    kept = {key: None if value is None else value.hex() for key, value in values.items()}
    line = json.dumps({"at": time.time(), "table": table.name, "values": kept})
    private_files.append(file, f"{line}\n".encode())


def _replace(
    db: Statements,
    table: StoreTable,
    rowid: int,
    values: Mapping[str, bytes | None],
    damaged: set[str],
    name: str,
) -> None:
    keys = {table.key} | ({"seq"} if table.name == "entries" else set())
    forgotten = table.name == "waiting"  # its container is garbage then
    if (
        forgotten
        or damaged & keys
        or (table.name in ("entries", "branches") and damaged - {"body", "actor", "kind"})
    ):
        # Nothing finds it any more: it is in the file only, unless other rows need it.
        with suppress(sqlite3.IntegrityError):
            db.run(f'DELETE FROM "{table.name}" WHERE rowid = ?', (rowid,))  # noqa: S608
        return
    changed = {key: _instead(table, table.columns[key]) for key in damaged}
    why = f"its record in the store was damaged ({', '.join(sorted(damaged))})"
    if table.name == "sessions":
        if "name" in damaged:
            changed["name"] = f"damaged-{ids.new_id()[:8]}"
        container = values["container_id"]
        if container is not None and "container_id" not in damaged and damaged - {"created_at", "generation"}:
            details = _details(values, damaged)
            details["unhealthy"] = {"container": container.decode(), "why": why}
            changed["details"] = json.dumps(details)
    elif table.name == "snapshots" and damaged - _HARMLESS:
        changed["state"] = "damaged"
        changed["details"] = json.dumps(_details(values, damaged) | {"damage": why})
        if "session_id" in damaged:
            changed["session_id"] = _unknown_session(db)
    elif table.name == "operations" and damaged - {"ended_at", "started_at"}:
        # To undo what it says could do harm now. What it left behind is garbage, which `gc` finds.
        changed["state"] = "failed"
        changed["ended_at"] = datetime.now(UTC).isoformat(timespec="microseconds")
    sets = ", ".join(f'"{key}" = ?' for key in changed)
    db.run(
        f'UPDATE "{table.name}" SET {sets} WHERE rowid = ?',  # noqa: S608
        (*changed.values(), rowid),
    )


def _details(values: Mapping[str, bytes | None], damaged: set[str]) -> dict[str, Any]:
    found = values["details"]
    return {} if found is None or "details" in damaged else dict(json.loads(found))


def _instead(table: StoreTable, column: Column) -> Any:
    if (table.name, column.name) in _INSTEAD:
        return _INSTEAD[table.name, column.name]
    if column.nullable:
        return None
    return _EMPTY.get(column.form, 0)


def _unknown_session(db: Statements) -> str:
    """Return the id of a removed session, for snapshots whose session is unknown."""
    made = ids.new_id()
    unknown = {"id": made, "name": "unknown", "state": "removed", "image": "", "generation": 0}
    db.insert(schema.SESSIONS, {**unknown, "options": {}, "created_at": datetime.now(UTC), "details": {}})
    return made
