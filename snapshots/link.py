"""The host's end of the conversation with the checkpointer: one request, events back, decisions in between.

Knows the form of the conversation, not the content of a capture or the origin of the checkpointer.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.errors import EngineError

PROTOCOL = 1
SOCKET = "checkpointer.sock"
_UNDONE_SECONDS = 20.0


class LinkLost(EngineError, ConnectionError):
    """The checkpointer ended or cannot be reached."""

    code = "checkpointer_lost"


class CheckpointerFailed(Exception):
    """The checkpointer failed. `errors` are CRIU's own lines, `kind` names the failed part."""

    def __init__(self, kind: str, message: str, errors: list[str]) -> None:
        super().__init__(message)
        self.kind = kind
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Target:
    """A session's container: its full id, its first process (host pid), the root of its tree (inner pid)."""

    container: str
    init_pid: int
    root_pid: int

    def fields(self) -> dict[str, object]:
        """Return the target as the checkpointer expects it."""
        return {"container": self.container, "init_pid": self.init_pid, "root_pid": self.root_pid}


class CheckpointerLink:
    """One request in progress. Closing it early makes the checkpointer undo it."""

    def __init__(self, where: Path, op: str, /, **fields: object) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Through a descriptor of the folder: a socket's path is limited to 108 bytes (unix(7)).
            directory = os.open(where, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._socket.connect(f"/proc/self/fd/{directory}/{SOCKET}")
            finally:
                os.close(directory)
            sys.audit("holdfast.asks", id(self), "checkpointer", op)
            self._say({"v": PROTOCOL, "op": op, **fields})
        except OSError as error:
            self._socket.close()
            raise LinkLost(f"cannot reach the checkpointer: {error.strerror or error}") from error

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield events until the checkpointer hangs up.

        Raises:
            Refused: it failed; everything it had done is undone.
            LinkLost: it ended with data unread.
        """
        with self._socket.makefile("rb") as lines:
            while line := self._read(lines):
                event = json.loads(line)
                if event["event"] == "error":
                    raise CheckpointerFailed(
                        event["code"], event["message"], [str(item) for item in event["errors"]]
                    )
                yield event

    def until(
        self, last: str, passed: Callable[[dict[str, Any]], None] = lambda _event: None
    ) -> dict[str, Any]:
        """Skip to an event; `passed` is called with each one before it.

        Raises:
            Refused: as `events`.
            LinkLost: the checkpointer ended first.
        """
        for event in self.events():
            if event["event"] == last:
                return event
            passed(event)
        raise _lost()

    def decide(self, word: str) -> None:
        """Answer a question of the checkpointer: `go`, or anything else to make it undo.

        Raises:
            LinkLost: the checkpointer ended in the meantime.
        """
        try:
            self._socket.sendall(word.encode() + b"\n")
        except OSError as error:
            raise _lost() from error

    def abandon(self) -> None:
        """Make the checkpointer undo its work, and wait a while for it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_UNDONE_SECONDS)
            while self._socket.recv(1 << 16):
                pass
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        sys.audit("holdfast.answered", id(self))

    def __enter__(self) -> CheckpointerLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, lines: BinaryIO) -> bytes:
        try:
            return lines.readline()
        except OSError as error:
            raise _lost() from error

    def _say(self, request: dict[str, object]) -> None:
        self._socket.sendall(json.dumps(request).encode() + b"\n")


def _lost() -> LinkLost:
    return LinkLost("cannot continue: the checkpointer ended in the middle of an operation")
