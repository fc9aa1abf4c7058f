"""Databases beside that of a home: opened so that a server reads them at each request.  Knows no table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, MetaData, create_engine, event


def engine(path: Path) -> Engine:
    """Return the engine of a database in a file; the file is made by the first that writes it.

    Connections are kept: opening one takes longer than a look-up. What was written last can be lost with the
    machine's power, and not with the process.
    """
    made = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": 10, "check_same_thread": False},
    )
    event.listen(made, "connect", _on_connect)
    event.listen(made, "begin", _on_begin)
    return made


def make(engine: Engine, path: Path, metadata: MetaData) -> None:
    """Make the tables, whichever process is first, in a file for its owner alone."""
    with engine.connect() as db, db.execution_options(immediate=True).begin():
        metadata.create_all(db)
    path.chmod(0o600)


def is_made(engine: Engine, path: Path) -> bool:
    """Return whether there are tables; looking makes no file."""
    if not path.exists():
        return False
    with engine.connect() as db:
        return bool(db.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one())


def _on_connect(connection: Any, _record: Any) -> None:
    # SQLAlchemy decides when a transaction begins, not the driver.
    connection.isolation_level = None
    for pragma in ("journal_mode = DELETE", "synchronous = NORMAL"):
        connection.execute(f"PRAGMA {pragma}").close()


def _on_begin(db: Any) -> None:
    db.exec_driver_sql("BEGIN IMMEDIATE" if db.get_execution_options().get("immediate") else "BEGIN")
