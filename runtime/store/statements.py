"""The statements of the store within a transaction: rows read, inserted, changed and deleted.

Knows the tables, and neither files, transactions nor what is in the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.runtime.store.schema import StoreTable

Row = dict[str, Any]
"""The values of a row by column."""


class Statements:
    """A connection within a transaction. A condition is a text with a `?` for each value after it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def run(self, statement: str, values: tuple[Any, ...] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Execute a statement unchanged."""
        return self._db.execute(statement, values)

    def value(self, statement: str, *values: Any) -> Any:
        """Return the first value that a query finds, in the database's form; None if there is none."""
        found = self._db.execute(statement, values).fetchone()
        return None if found is None else found[0]

    def rows(
        self, table: StoreTable, rest: str = "", *values: Any, only: Sequence[str] = ()
    ) -> Iterator[Row]:
        """Yield rows as they are read. `rest` is the rest of the query after the table.

        With `only`, other columns are not read: they can be damaged.

        Raises:
            ValueError, TypeError: a value is damaged.
        """
        names = only or tuple(table.columns)
        query = f"SELECT {', '.join(names)} FROM {table.name} {rest}"  # noqa: S608 - of this package
        yield from map(table.reader(names), self._db.execute(query, values))

    def row(self, table: StoreTable, key: str | None, *only: str) -> Row | None:
        """Return the row with this key, or some of its columns; None if it is not there."""
        return next(self.rows(table, f"WHERE {table.key} = ?", key, only=only), None)

    def insert(self, table: StoreTable, *rows: Mapping[str, Any]) -> None:
        """Add rows, all with the same columns."""
        if not rows:
            return
        names = ", ".join(rows[0])
        marks = ", ".join(f":{name}" for name in rows[0])
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"  # noqa: S608 - of this package
        self._db.executemany(statement, map(table.stored, rows))

    def update(self, table: StoreTable, changes: Mapping[str, Any], where: str, *values: Any) -> int:
        """Change columns of the rows that fulfil a condition, and return their number."""
        if not changes:
            return 0
        sets = ", ".join(f"{name} = ?" for name in changes)
        given = (*table.stored(changes).values(), *values)
        statement = f"UPDATE {table.name} SET {sets} WHERE {where}"  # noqa: S608 - of this package
        return self._db.execute(statement, given).rowcount

    def delete(self, table: StoreTable, where: str, *values: Any) -> int:
        """Delete the rows that fulfil a condition, and return their number."""
        statement = f"DELETE FROM {table.name} WHERE {where}"  # noqa: S608 - of this package
        return self._db.execute(statement, values).rowcount
