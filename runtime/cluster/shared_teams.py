"""Teams that several machines share: rows of keys, people, limits and teams in PostgreSQL.

Each machine has copies of the rows in its files, which requests read: PostgreSQL is asked twice a second
for changes, for all teams together. A copy that could not be compared for some seconds opens nothing,
since a key could have been revoked then. Writers write to PostgreSQL first. Each team has a schema of its
own there, as it has a folder here. Sessions, snapshots and secrets stay on their machine. Knows no table.
"""

from __future__ import annotations

import hashlib
import logging
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from psycopg import sql

from holdfast.base import private_files
from holdfast.base.home import TEAMS
from holdfast.base.text import plain
from holdfast.errors import ClusterError, HoldfastError, StoreError
from holdfast.runtime.cluster.cluster_database import ClusterDatabase, Cursor
from holdfast.runtime.store.shared_rows import QUOTA_FILE, STORE_FILE, CopiedRows, SharedTeam

T = TypeVar("T")
POLL_SECONDS = 0.4
OLD_SECONDS = 5.0
"""After this many seconds without an answer of PostgreSQL, copies open nothing."""
HEAD_SECONDS = 60.0
_PATIENCE = 5.0
_MOST = 4
_TEAMS = "teams"
"""In place of the name of a file: the table of teams."""
_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_HINT = "check that PostgreSQL runs; `holdfast team store` shows its address"
logger = logging.getLogger("holdfast.serve")

_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS holdfast_teams;
CREATE TABLE IF NOT EXISTS holdfast_teams.versions (place text, file text, version bigint NOT NULL,
PRIMARY KEY (place, file));
CREATE TABLE IF NOT EXISTS holdfast_teams.teams (name text PRIMARY KEY, created_at double precision NOT NULL,
secret text NOT NULL);
CREATE TABLE IF NOT EXISTS holdfast_teams.files (place text, file text, content text NOT NULL,
PRIMARY KEY (place, file));
CREATE TABLE IF NOT EXISTS holdfast_teams.heads (machine text, place text, seq bigint, hash text NOT NULL,
at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (machine, place, seq))
"""
_BUMP = """
INSERT INTO holdfast_teams.versions VALUES (%s, %s, 1)
ON CONFLICT (place, file) DO UPDATE SET version = versions.version + 1 RETURNING version
"""

_opened: dict[str, SharedTeams] = {}
_opening = threading.Lock()


def of(root: Path) -> SharedTeams:
    """Return the shared teams of a home; one for all of this process.

    Raises:
        StoreError: the address cannot be read.
    """
    with _opening:
        try:
            url = (root / STORE_FILE).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read {root / STORE_FILE}: {error}") from error
        found = _opened.get(str(root))
        if found is None or found.url != url:
            found = _opened[str(root)] = SharedTeams(root, url)
        return found


class SharedTeams:
    """One PostgreSQL as the origin of one home's copies, for any thread.

    Methods raise StoreError while PostgreSQL does not answer, or if it refuses.
    """

    def __init__(self, root: Path, url: str) -> None:
        self.url = url
        self._root = root
        self._database = ClusterDatabase(url, patience_s=_PATIENCE, most=_MOST)
        self._lock = threading.Lock()
        self._copies: weakref.WeakSet[CopiedRows] = weakref.WeakSet()
        self._later: dict[tuple[str, Any], tuple[CopiedRows, str, Sequence[Any]]] = {}
        self._made: set[tuple[str, str]] = set()
        self._seen: dict[tuple[str, str], int] = {}
        self._teams: list[SharedTeam] | None = None
        self._answered = float("-inf")
        self._head_at: dict[Path, float] = {}
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def make(self) -> None:
        """Make the tables that all places share."""
        self._transaction(lambda cursor: cursor.execute(_SCHEMA.encode()) and None)

    def renew(self, copy: CopiedRows) -> None:
        """Have a copy follow its rows; it is up to date on the first call."""
        if copy in self._copies:
            if time.monotonic() - self._answered > OLD_SECONDS:
                raise StoreError("cannot check keys: the database of teams does not answer", hint=_HINT)
            return
        with self._lock:
            self._copies.add(copy)
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="teams", daemon=True)
                self._thread.start()
        self._compare()

    @contextmanager
    def writing(self, copy: CopiedRows) -> Iterator[_RemoteRows]:
        """Yield a transaction in which no other process writes these rows; the copy has its outcome."""
        place = self._place(copy)
        with _translated(), self._database.begun() as cursor:
            self._begin(cursor, place, copy.schema)
            yield _RemoteRows(cursor)
            version = _bump(cursor, place)
        self._made.add(place)
        self._pull(copy, version)

    def add(self, copy: CopiedRows, tables: Mapping[str, Sequence[Sequence[Any]]]) -> list[str]:
        """Add rows that are not there; return the names in second columns that belong to others there."""
        left_out = []
        with self.writing(copy) as there:
            for table, rows in tables.items():
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    asked = f"INSERT INTO {table} VALUES ({marks}) ON CONFLICT DO NOTHING RETURNING 1"  # noqa: S608
                    if there.execute(asked, row).fetchone() is None and not _has(there, table, row):
                        left_out.append(str(row[1]).partition("#")[0])
        return left_out

    def later(self, copy: CopiedRows, statement: str, values: Sequence[Any]) -> None:
        """Write something of which a loss does no harm, soon. The last value names its row."""
        self._later[(statement, values[-1])] = (copy, statement, values)

    def put(self, path: Path, content: str) -> None:
        """Share the content of a small file."""
        place = (self._name(path.parent), path.name)

        def work(cursor: Cursor) -> None:
            cursor.execute(
                "INSERT INTO holdfast_teams.files VALUES (%s, %s, %s) "
                "ON CONFLICT (place, file) DO UPDATE SET content = excluded.content",
                (*place, content),
            )
            _bump(cursor, place)

        self._transaction(work)

    def has_file(self, path: Path) -> bool:
        """Return whether the content of a small file is shared."""
        return self._content((self._name(path.parent), path.name)) is not None

    def teams(self) -> list[SharedTeam] | None:
        """Return the teams of all machines; None if they are as at the last call. It does not wait."""
        found, self._teams = self._teams, None
        return found

    def all_teams(self) -> list[SharedTeam]:
        """Return the teams of all machines as they are now."""
        asked = b"SELECT name, created_at, secret FROM holdfast_teams.teams"
        rows = self._transaction(lambda cursor: cursor.execute(asked).fetchall())
        return [(str(row["name"]), float(row["created_at"]), str(row["secret"])) for row in rows]

    def add_team(self, name: str, created_at: float, secret: str) -> bool:
        """Add a team; return False if the name is in use."""

        def work(cursor: Cursor) -> bool:
            added = cursor.execute(
                "INSERT INTO holdfast_teams.teams VALUES (%s, %s, %s) ON CONFLICT (name) DO NOTHING",
                (name, created_at, secret),
            ).rowcount
            _bump(cursor, ("", _TEAMS))
            return added == 1

        return self._transaction(work)

    def remove_team(self, name: str) -> None:
        """Let a team be one no more, on all machines."""

        def work(cursor: Cursor) -> None:
            cursor.execute("DELETE FROM holdfast_teams.teams WHERE name = %s", (name,))
            _bump(cursor, ("", _TEAMS))

        self._transaction(work)

    def forget_team(self, name: str) -> None:
        """Remove the rows of a team that was removed, unless there is a new one of its name."""

        def work(cursor: Cursor) -> None:
            if cursor.execute("SELECT 1 FROM holdfast_teams.teams WHERE name = %s", (name,)).fetchone():
                return
            cursor.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(_schema_of(name)))
            for table in ("versions", "files", "heads"):
                at = sql.Identifier("holdfast_teams", table)
                cursor.execute(sql.SQL("DELETE FROM {} WHERE place = %s").format(at), (name,))

        self._transaction(work)
        self._made = {each for each in self._made if each[0] != name}

    def note_head(self, folder: Path, seq: int, hash_: str) -> None:
        """Note the head of the audit trail of this machine, about once a minute."""
        now = time.monotonic()
        if now - self._head_at.get(folder, float("-inf")) < HEAD_SECONDS:
            return
        self._head_at[folder] = now
        values = (socket.gethostname(), self._name(folder), seq, hash_)
        statement = "INSERT INTO holdfast_teams.heads VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        self._transaction(lambda cursor: cursor.execute(statement, values) and None)

    def heads(self, folder: Path) -> dict[int, str]:
        """Return the noted heads of the trail of a home on this machine: hashes of rows by their numbers."""
        asked = "SELECT seq, hash FROM holdfast_teams.heads WHERE machine = %s AND place = %s"
        values = (socket.gethostname(), self._name(folder))
        rows = self._transaction(lambda cursor: cursor.execute(asked, values).fetchall())
        return {int(row["seq"]): str(row["hash"]) for row in rows}

    def close(self) -> None:
        """Follow nothing any more, and close the connections that are not in use."""
        self._ended.set()
        self._database.close()

    def _follow(self) -> None:
        told = False
        while not self._ended.wait(POLL_SECONDS):
            try:
                self._write_later()
                self._compare()
                told = False
            except HoldfastError as error:
                if not told and time.monotonic() - self._answered > OLD_SECONDS:
                    logger.error("cannot compare the keys of teams: %s", plain(str(error), 300))
                    told = True

    def _compare(self) -> None:
        """Bring all copies up to date."""
        began, asked = time.monotonic(), b"SELECT * FROM holdfast_teams.versions"
        rows = self._transaction(lambda cursor: cursor.execute(asked).fetchall())
        versions = {(str(row["place"]), str(row["file"])): int(row["version"]) for row in rows}
        for copy in list(self._copies):
            version = versions.get(self._place(copy), 0)
            # A copy of a team that was removed here has no folder any more.
            if copy.path.parent.is_dir() and version != copy.version:
                self._pull(copy, version)
        for place, version in versions.items():
            if place[1] in (_TEAMS, QUOTA_FILE) and self._seen.get(place) != version:
                self._take_over(place)
                self._seen[place] = version
        self._answered = began

    def _take_over(self, place: tuple[str, str]) -> None:
        """Have a small file here be as it is there, or note that the teams have changed."""
        if place[1] == _TEAMS:
            self._teams = self.all_teams()
            there = {"", *(name for name, _, _ in self._teams)}
            self._made = {each for each in self._made if each[0] in there}
            return
        content, folder = self._content(place), self._root / TEAMS / place[0] if place[0] else self._root
        if content is not None and folder.is_dir():
            with suppress(FileNotFoundError):  # it is being removed
                private_files.replace(folder / place[1], content)

    def _content(self, place: tuple[str, str]) -> str | None:
        asked = "SELECT content FROM holdfast_teams.files WHERE place = %s AND file = %s"
        row = self._transaction(lambda cursor: cursor.execute(asked, place).fetchone())
        return None if row is None else str(row["content"])

    def _pull(self, copy: CopiedRows, version: int) -> None:
        place, tables = self._place(copy), _TABLE.findall(copy.schema)

        def work(cursor: Cursor) -> dict[str, list[tuple[Any, ...]]]:
            _enter(cursor, place[0])
            found = {}
            for table in tables:
                rows = cursor.execute(f"SELECT * FROM {table}".encode())  # noqa: S608 - of the schema
                found[table] = [tuple(row.values()) for row in rows]
            return found

        copy.copy(version, self._transaction(work) if version else {table: [] for table in tables})

    def _write_later(self) -> None:
        waiting, self._later = self._later, {}
        for copy, statement, values in waiting.values():
            with self.writing(copy) as rows:
                rows.execute(statement, values)

    def _begin(self, cursor: Cursor, place: tuple[str, str], schema: str) -> None:
        """Let a transaction write the tables of a place alone, which are made if they are missing."""
        digest = hashlib.sha256("/".join(place).encode()).digest()
        lock = int.from_bytes(digest[:8], "big", signed=True)
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        if place not in self._made:
            cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(_schema_of(place[0])))
        _enter(cursor, place[0])
        if place not in self._made:
            cursor.execute(
                schema.replace(" REAL ", " DOUBLE PRECISION ").replace(" INTEGER ", " BIGINT ").encode()
            )

    def _transaction(self, work: Callable[[Cursor], T]) -> T:
        with _translated():
            return self._database.transaction(work)

    def _name(self, folder: Path) -> str:
        """Return the name of the team with this folder; empty for the home itself."""
        return "" if folder == self._root else folder.name

    def _place(self, copy: CopiedRows) -> tuple[str, str]:
        return self._name(copy.path.parent), copy.path.name


class _RemoteRows:
    """A cursor that takes statements as they are written for SQLite."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def execute(self, statement: str, values: Any = (), /) -> Cursor:
        """Execute a statement, and return the cursor."""
        return self._cursor.execute(statement.replace("?", "%s").encode(), values)


def _has(there: _RemoteRows, table: str, row: Sequence[Any]) -> bool:
    """Return whether a row with this key is there: the first column of each table."""
    column = {"people": "name"}.get(table, "id")
    return there.execute(f"SELECT 1 FROM {table} WHERE {column} = ?", (row[0],)).fetchone() is not None  # noqa: S608


def _bump(cursor: Cursor, place: tuple[str, str]) -> int:
    """Note that a place has changed; return its version."""
    row = cursor.execute(_BUMP, place).fetchone()
    assert row is not None
    return int(row["version"])


def _schema_of(team: str) -> sql.Identifier:
    return sql.Identifier(f"holdfast_team_{team}" if team else "holdfast_own")


def _enter(cursor: Cursor, team: str) -> None:
    cursor.execute(sql.SQL("SET LOCAL search_path TO {}").format(_schema_of(team)))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ClusterError as error:
        why = " ".join(str(error.__cause__ or error).split())[:200]
        raise StoreError(f"cannot use the database of teams: {plain(why)}", hint=_HINT) from error
