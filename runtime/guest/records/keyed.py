"""Runs under an idempotency key, recorded so that none is repeated: one small file for each key.

The file is written before the run can start, and gets its second line when the run has ended. It is part of
the session's files: in a copy of an earlier snapshot the key is free again, because the run is undone.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.wire.connection import RequestRefused


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """The request that a key stands for, and its outcome if it has ended."""

    began: dict[str, Any]
    ended: dict[str, Any] | None


class Keyed:
    """The keys of the session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def find(self, id_: str) -> KeyedRequest | None:
        """Return the record of an id."""
        try:
            lines = self._path(id_).read_bytes().splitlines(keepends=True)
        except OSError:
            return None
        entries = [_object(line) for line in lines]
        if not entries or entries[0] is None:  # a crash cut the first line: nothing was started after it
            return None
        return KeyedRequest(entries[0], next((each for each in entries[1:] if each is not None), None))

    def check(self, id_: str, op: str, target: str, text: bytes) -> KeyedRequest | None:
        """Return the record of an id.

        Raises:
            Refusal: the id stands for something else.
        """
        known = self.find(id_)
        if known and known.began.get("what") != _what(op, target, text):
            other = f"{known.began.get('op')} in {known.began.get('target')}"
            raise RequestRefused(
                "key_conflict",
                f"cannot {op} under this key: it was used for something else ({other}, or another text)",
            )
        return known

    def begin(self, id_: str, op: str, target: str, text: bytes, **more: str) -> None:
        """Record that this is about to start.

        Raises:
            Refusal: it cannot be recorded, so it must not start.
        """
        line = _line({"op": op, "target": target, "what": _what(op, target, text), "at": time.time(), **more})
        path = self._path(id_)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                whole = os.write(fd, line) == len(line)
            finally:
                os.close(fd)
        except OSError as error:
            raise RequestRefused(
                "no_space", f"cannot {op} under a key: it cannot be recorded ({error})"
            ) from None
        if not whole:
            self.forget(id_)
            raise RequestRefused(
                "no_space", f"cannot {op} under a key: it cannot be recorded (the disk is full)"
            )

    def end(self, id_: str, **result: Any) -> None:
        """Record the outcome. If the disk is full, it is known only as long as this process lives."""
        try:
            fd = os.open(self._path(id_), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            os.write(fd, _line(result))
        except OSError:
            return
        finally:
            os.close(fd)

    def forget(self, id_: str) -> None:
        """Free the key: the run did not start after all."""
        self._path(id_).unlink(missing_ok=True)

    def _path(self, id_: str) -> Path:
        return self._folder / hashlib.sha256(id_.encode("utf-8", "replace")).hexdigest()[:40]


def _what(op: str, target: str, text: bytes) -> str:
    return hashlib.sha256(b"\0".join((op.encode(), target.encode(), text))).hexdigest()


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
