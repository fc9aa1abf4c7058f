"""Programs in the session that are notified of captures and restores, each by its FIFO in a folder.

Each gets a line, and answers by another FIFO when its callbacks are done. Both belong to programs of the
session: input is checked and bounded, and every wait has a limit.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.layout import IdentityPaths

MOST = 256
READ_SIZE = 64 << 10
LONGEST = 4096
"""Bytes of an answer, which are written atomically (PIPE_BUF, pipe(7))."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer of one program: the number of functions it called, and what went `wrong`."""

    program: str
    called: int = 0
    wrong: str = ""
    seconds: float = 0.0


class Listeners:
    """The folder of FIFOs. None is open between two notifications."""

    def __init__(self, paths: IdentityPaths) -> None:
        self._paths = paths
        self._number = 0

    async def notify(self, facts: Mapping[str, Any], patience: float) -> list[Heard]:
        """Notify all programs, and return their answers after at most `patience` seconds."""
        if not self._names():
            return []
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._number += 1
        try:
            answers = self._open_answers()
        except OSError:
            return []
        waiting: dict[str, str] = {}
        heard: list[Heard] = []
        over = loop.create_future()
        rest = b""

        def take() -> None:
            nonlocal rest
            with suppress(BlockingIOError):
                *lines, rest = (rest + os.read(answers, READ_SIZE)).split(b"\n")
                rest = rest[-LONGEST:]
                for line in lines:
                    if (one := answer(line, waiting)) is not None:
                        number, called, wrong = one
                        heard.append(Heard(waiting.pop(number), called, wrong, loop.time() - began))
            if not waiting and not over.done():
                over.set_result(None)

        try:
            loop.add_reader(answers, take)
            for at, name in enumerate(self._names()):
                number = f"{self._number}.{at}"
                if self._write(name, {**facts, "number": number}):
                    waiting[number] = f"pid {name.partition('-')[0][:20]}"
            if waiting:
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience):
                        await over
        finally:
            loop.remove_reader(answers)
            os.close(answers)
        silent = f"did not answer in {patience:.0f} s"
        return heard + [Heard(program, 0, silent, patience) for program in waiting.values()]

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._paths.listeners) as found:
                return sorted(one.name for one, _ in zip(found, range(MOST), strict=False))
        except OSError:
            return []

    def _write(self, name: str, message: Mapping[str, Any]) -> bool:
        """Write a line to a program's FIFO; one without a reader is left over from an ended program."""
        path = self._paths.listeners / name
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ELOOP):
                _remove(path)
            return False
        try:
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):
                _remove(path)
                return False
            os.write(fd, json.dumps(message).encode() + b"\n")
        except OSError:  # it is full: it has not been read for long
            return True
        finally:
            os.close(fd)
        return True

    def _open_answers(self) -> int:
        path = self._paths.answers
        _remove(path)
        os.mkfifo(path, 0o600)
        path.chmod(0o622)  # programs of every user may write to it
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def answer(line: bytes, expected: Iterable[str]) -> tuple[str, int, str] | None:
    """Return number, calls and trouble of an answer, or None if it answers no open question. Pure."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    number, called, wrong = fields.get("number"), fields.get("called"), fields.get("wrong")
    if not isinstance(number, str) or number not in expected:
        return None
    count = called if isinstance(called, int) and 0 <= called < 10_000 else 0
    return number, count, wrong[:500] if isinstance(wrong, str) else ""


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
