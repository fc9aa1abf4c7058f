"""Messages about processes, as they are sent: their beginning, what they write, their end.  Pure."""

from __future__ import annotations

import base64
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import shell_words

NOT_EXITED = -1
"""The exit code of a process that a signal ended."""
_EXEC = "exec "
_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class EndOfProcess:
    """How a process ended: its exit code, or the signal that ended it; and how much of its output is lost."""

    exit_code: int | None
    signal: int | None
    lost: int = 0


def started(pid: int) -> dict[str, Any]:
    """Return the first message of a stream."""
    return {"event": {"start": {"pid": pid}}}


def wrote(stream: str, data: bytes) -> dict[str, Any]:
    """Return the message for what a process wrote to `stdout`, `stderr` or its `pty`."""
    return {"event": {"data": {stream: base64.b64encode(data).decode("ascii")}}}


def ended(end: EndOfProcess) -> dict[str, Any]:
    """Return the message for an end, in the words of Go's `os.ProcessState`, which clients know."""
    exited = end.signal is None
    code = min(max(end.exit_code or 0, -_INT32), _INT32) if exited else NOT_EXITED
    status = f"exit status {code}" if end.signal is None else f"signal: {_signal(end.signal)}"
    errors = [status] if code else []
    if end.lost:
        errors.append(f"{end.lost} bytes of its output came too fast for the reader, and are lost")
    told: dict[str, Any] = {"exitCode": code, "exited": exited, "status": status}
    return {"event": {"end": told | ({"error": "; ".join(errors)} if errors else {})}}


def _signal(number: int) -> str:
    try:
        return (signal.strsignal(number) or "").lower() or f"signal {number}"
    except (ValueError, OverflowError):
        return f"signal {number}"


def described(pid: int, tag: str, words: Sequence[str], cwd: str) -> dict[str, Any]:
    """Return what a list says of a process. Its variables are left out."""
    config = {"cmd": words[0] if words else "", "args": list(words[1:]), "envs": {}, "cwd": cwd}
    return {"config": config, "pid": pid, **({"tag": tag} if tag else {})}


def command_of(words: Sequence[str]) -> str:
    """Return the text by which bash becomes a program."""
    return _EXEC + shell_words.join(words)


def words_of(command: str) -> list[str]:
    """Return the program and arguments that a text stands for, see `command_of`; else bash with the text."""
    if command.startswith(_EXEC):
        try:
            words = shlex.split(command[len(_EXEC) :])
        except ValueError:  # it was cut off
            words = []
        if words and command_of(words) == command:
            return words
    return ["/bin/bash", "-c", command]
