"""The servers of a home that are running now, each with the base of its previews while it lives.

A server holds the lock on its file; a file without a holder was left by one that was killed, and is removed.
Nothing here is secret: the stamp shows which token a server has, and not the token.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import StoreError

_FOLDER = "serving"
_LARGEST = 4096


@dataclass(frozen=True, slots=True)
class ServingRecord:
    """One server.

    Attributes:
        url: its own address, `http://127.0.0.1:8420` or `unix:/path`.
        previews: the address below which ports have their names; empty if browsers cannot reach it.
        stamp: differs when its token does, so that links end with the token they were made under.
    """

    url: str
    previews: str
    stamp: str


def stamp_of(token: str) -> str:
    """Return the stamp of a server with this token."""
    return hmac.new(token.encode(), b"holdfast previews", hashlib.sha256).hexdigest()[:32]


def reached_here(url: str) -> str:
    """Return the URL by which this machine reaches a server that listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


@contextmanager
def announced(home: Home, record: ServingRecord) -> Iterator[None]:
    """Let other processes find a server while the block runs.

    Raises:
        StoreError: the record cannot be written.
    """
    file, path = _written(home, record)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _written(home: Home, record: ServingRecord) -> tuple[BinaryIO, Path]:
    """Return the file of a record, locked, and its path."""
    folder = home.root / _FOLDER
    path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
    part = path.with_suffix(".part")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        file = private_files.create(part, new=True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(asdict(record)).encode())
            file.flush()
            part.replace(path)
        except OSError:
            file.close()
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return file, path


def running(home: Home) -> list[ServingRecord]:
    """Return the servers of a home, the latest first."""
    found = []
    with suppress(OSError):
        for path in (home.root / _FOLDER).glob("*.json"):
            with suppress(OSError, ValueError, TypeError):
                started, record = _held(path)
                if record is not None:
                    found.append((started, record))
    return [record for _, record in sorted(found, key=lambda each: -each[0])]


def _held(path: Path) -> tuple[float, ServingRecord | None]:
    with path.open("rb") as file:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)  # its server has ended
            return 0.0, None
        return os.fstat(file.fileno()).st_mtime, ServingRecord(**json.loads(file.read(_LARGEST)))
