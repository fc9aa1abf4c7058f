"""Errors of the database, in one line that names the file and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from holdfast.errors import HoldfastError, StoreError

_DAMAGE = "a value in it is damaged"
# SQLite's messages, and what to do; the first match counts.
ADVICE = (
    ("disk is full", "free some disk space; `holdfast rm`, `rmi` and `gc` work on a full disk"),
    ("disk i/o error", "check the disk: free space, quota, health"),
    ("unable to open", "make the folder writable, or set HOLDFAST_HOME to one that is"),
    ("readonly", "make the file writable, or set HOLDFAST_HOME to a folder that is"),
    ("not a database", "move the file away, or set HOLDFAST_HOME to another folder"),
    ("malformed", "move the file away, or restore it from a backup"),
    ("locked", "another process holds it; try again"),
    ("no such", "move the file away, or restore it from a backup"),
)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLAlchemy raises into StoreError. Violations of uniqueness pass."""
    try:
        yield
    except (IntegrityError, HoldfastError):
        raise
    except SQLAlchemyError as error:
        if isinstance(error, OperationalError) and "decode to utf-8" in str(error.orig).lower():
            raise _damaged(path) from error
        why = str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__
        hint = next((advice for sign, advice in ADVICE if sign in why.lower()), "")
        raise StoreError(f"cannot use {path}: {why}", hint=hint) from error
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise _damaged(path) from error


def is_damage(error: BaseException) -> bool:
    """Return whether an error is that of a value that cannot be read, and of nothing else."""
    return isinstance(error, StoreError) and _DAMAGE in str(error)


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"cannot use {path}: {_DAMAGE}",
        hint="`holdfast ls` and `holdfast snapshots` set it aside, and name its row from then on",
    )
