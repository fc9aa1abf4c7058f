"""Runs in a session: holds SQLite databases in every mode, and reports on request what works on them.

`databases.py FOLDER BALLAST`: the process has BALLAST MB of memory besides. It makes FOLDER/ready, waits for
FOLDER/go-N, and answers in FOLDER/said-N, for N = 0, 1, …
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
MEMORY = os.urandom(1 << 20) * int(sys.argv[2])
TURNS = 3


def connected(name: str) -> sqlite3.Connection:
    """Return a connection that begins and ends transactions only on request."""
    return sqlite3.connect(FOLDER / f"{name}.db", isolation_level=None, timeout=0)


def made(name: str, mode: str = "delete") -> sqlite3.Connection:
    """Return a new database with a table."""
    connection = connected(name)
    connection.execute(f"pragma journal_mode={mode}")
    connection.execute("create table t(x)")
    return connection


def outcome(connection: sqlite3.Connection, *statements: str) -> str:
    """Return the result of some statements: `fine`, or the first error."""
    try:
        for statement in statements:
            connection.execute(statement).fetchall()
    except sqlite3.Error as error:
        return str(error)
    return "fine"


def excluded(old: sqlite3.Connection, name: str) -> list[str]:
    """Return the results of writing by a new connection while an old one of this process writes, and after
    it.
    """
    new = connected(name)
    begun = outcome(old, "begin immediate", "insert into t values (4)")
    both = outcome(new, "begin immediate")
    ended = outcome(old, "commit")
    alone = outcome(new, "begin immediate", "insert into t values (5)", "commit")
    new.close()
    return [begun, both, ended, alone]


held = {
    "idle": made("idle"),
    "reading": made("reading"),
    "about to write": made("immediate"),
    "writing": made("writing"),
    "wal": made("wal", "wal"),
    "truncate": made("truncate", "truncate"),
    "persist": made("persist", "persist"),
    "exclusive": made("exclusive"),
}
held["exclusive"].execute("pragma locking_mode=exclusive")
held["exclusive"].execute("insert into t values (0)")
shared = {mode: made(f"shared-{mode}", mode) for mode in ("delete", "wal")}
pair = [made("pair"), connected("pair")]
numbers = (FOLDER / "idle.db").stat()
(FOLDER / "ready").touch()
for turn in range(TURNS):
    held["reading"].execute("begin")
    held["reading"].execute("select * from t").fetchall()
    held["about to write"].execute("begin immediate")
    held["writing"].execute("begin immediate")
    held["writing"].execute("insert into t values (1)")
    (FOLDER / f"ready-{turn}").touch()
    while not (FOLDER / f"go-{turn}").exists():
        time.sleep(0.02)
    said: dict[str, object] = {name: outcome(one, "insert into t values (3)") for name, one in held.items()}
    for name in ("reading", "about to write", "writing"):
        said[f"end of {name}"] = outcome(held[name], "commit")
    for name, one in held.items():
        said[f"check of {name}"] = one.execute("pragma integrity_check").fetchone()[0]
    for mode, one in shared.items():
        said[f"shared, {mode}"] = excluded(one, f"shared-{mode}")
    pair[0].execute("begin immediate")
    said["pair"] = outcome(pair[1], "begin immediate")
    pair[0].execute("rollback")
    now = (FOLDER / "idle.db").stat()
    said["moved"] = now.st_ino != numbers.st_ino
    said["ballast"] = MEMORY[: 1 << 20] == MEMORY[-(1 << 20) :]
    (FOLDER / "saying").write_text(json.dumps(said))
    (FOLDER / "saying").rename(FOLDER / f"said-{turn}")
