"""The queue between programs that request a capture and the host process that serves them, across captures.

Programs request by FIFOs in the container's own file system, which copies get as they were: one for all
requests, and one for the answer to each waiting program. The request itself is in a file next to that,
because a FIFO can only pass a short line in one piece. All of it belongs to programs of the session: it is
checked and bounded. The server loses its connection with every capture and is waited for afterwards. The
decisions about requests are in `captures.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.runtime.guest.captures.captures import Answer, CaptureRequests, Request
from holdfast.runtime.guest.layout import IdentityPaths

GRACE = 30.0
"""Seconds after a capture within which the server is expected back."""
READ_SIZE = 16 << 10
LONGEST = 64 << 10
"""Bytes of a request."""
LONGEST_ANSWER = 4096
"""Bytes of an answer, which are written atomically (PIPE_BUF, pipe(7))."""
LONGEST_TEXT = 800
MOST_LEFT = 1000
_NAME = re.compile(rb"[1-9][0-9]{0,9}-[0-9a-f]{8}")


class RequestFifo:
    """The FIFO of requests. `asked` is called with each well-formed one."""

    def __init__(self, paths: IdentityPaths, asked: Callable[[Request], None]) -> None:
        self._paths = paths
        self._asked = asked
        self._rest = b""
        self._fd = -1

    def begin(self, *, again: bool = False) -> None:
        """Create the FIFO and listen. On a full disk, or without the folder, no request can be made.

        `again`: take up the requests that another supervisor left without an answer.
        """
        path = self._paths.captures
        with suppress(OSError):
            self._paths.asking.mkdir(exist_ok=True)
            self._paths.asking.chmod(0o1777)
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
            path.chmod(0o622)  # programs of every user may write to it
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            asyncio.get_running_loop().add_reader(self._fd, self._take)
            names = os.listdir(self._paths.asking)[:MOST_LEFT] if again else []  # noqa: PTH208
            self._take_up(name.encode("utf-8", "surrogateescape") for name in names)

    def give(self, asker: str, answer: Answer) -> None:
        """Answer a program; if it has ended, remove its leftovers."""
        path = self._paths.asking / asker
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            self._forget(path)
            return
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                with suppress(OSError):
                    os.write(fd, answer_line(answer))
        finally:
            os.close(fd)

    def waits(self, asker: str) -> bool:
        """Return whether the program still waits for its answer."""
        try:
            os.close(os.open(self._paths.asking / asker, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
        except OSError:
            self._forget(self._paths.asking / asker)
            return False
        return True

    def _take(self) -> None:
        with suppress(BlockingIOError):
            *names, self._rest = (self._rest + os.read(self._fd, READ_SIZE)).split(b"\n")
            self._rest = self._rest[-64:]
            self._take_up(names)

    def _take_up(self, names: Iterable[bytes]) -> None:
        for name in names:
            if _NAME.fullmatch(name) and (found := self._request(name.decode())) is not None:
                self._asked(found)

    def _request(self, asker: str) -> Request | None:
        try:
            fd = os.open(
                self._paths.asking / f"{asker}.json",
                os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC,
            )
        except OSError:
            return None
        try:
            data = os.read(fd, LONGEST + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        except OSError:
            return None
        finally:
            os.close(fd)
        return parse(asker, data)

    def _forget(self, path: Path) -> None:
        with suppress(OSError):
            path.with_name(f"{path.name}.json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def parse(asker: str, data: bytes) -> Request | None:
    """Return the request in a program's file, or None if it is not valid. Pure."""
    try:
        fields: Any = json.loads(data) if len(data) <= LONGEST else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    generation = fields.pop("generation", 0)
    if not isinstance(generation, int) or isinstance(generation, bool):
        return None
    return Request(asker, generation, fields)


def answer_line(answer: Answer) -> bytes:
    """Return an answer as a line short enough to be written atomically. Pure."""
    short = {key: value[:LONGEST_TEXT] if isinstance(value, str) else value for key, value in answer.items()}
    data = json.dumps(short).encode() + b"\n"
    if len(data) > LONGEST_ANSWER:  # JSON writes some characters with six
        short = {key: value[:80] if isinstance(value, str) else value for key, value in short.items()}
        data = json.dumps(short).encode() + b"\n"
    return data


class CaptureQueue:
    """The queue of a session. `generation` returns how often the session was restored."""

    def __init__(self, paths: IdentityPaths, generation: Callable[[], int]) -> None:
        self._generation = generation
        self._asking = RequestFifo(paths, self._asked)
        self._captures = CaptureRequests(self._asking.give)
        self._captures.heard = self._hear
        self._server: object | None = None
        self._came: asyncio.Event | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._snapshot = ""

    def begin(self, *, again: bool = False) -> None:
        """Accept requests of programs; with `again`, also a previous supervisor's."""
        self._asking.begin(again=again)

    def serve(self, server: object, holding: int) -> None:
        """Hand requests to a connection.

        Raises:
            Refusal: another connection serves.
        """
        self._captures.serve(holding)
        self._server, self._came = server, asyncio.Event()
        self._came.set()
        self._end_grace()

    async def next(self) -> tuple[int, Request]:
        """Return the next request, once there is one, of a program that still waits."""
        assert self._came is not None
        while True:
            while (found := self._captures.next()) is None:
                self._came.clear()
                await self._came.wait()
            number, request = found
            if self._asking.waits(request.asker):
                return number, request
            self._captures.answered(number, {})

    def answered(self, number: int, answer: Answer) -> None:
        """Pass on the host's answer to a request."""
        self._captures.answered(number, answer)

    def left(self, server: object) -> None:
        """Note that a connection that served has ended, on its own or because its client has left."""
        if server is self._server:
            self._server = None
            self._captures.left(expected=False)

    def pausing(self) -> None:
        """Prepare for a capture, which cuts all connections."""
        self._end_grace()
        self._server = None
        self._captures.left(expected=self._captures.open)

    def woken(self, event: str, snapshot: str) -> None:
        """Resume after the pause."""
        if event == "restored":
            self._snapshot = snapshot
            self._captures.restored(snapshot)
        elif self._captures.open:
            self._grace = asyncio.get_running_loop().call_later(GRACE, self._gone)

    def _asked(self, request: Request) -> None:
        self._captures.ask(request, self._generation(), self._snapshot)

    def _hear(self) -> None:
        if self._came is not None:
            self._came.set()

    def _gone(self) -> None:
        self._grace = None
        self._captures.left(expected=False)

    def _end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
