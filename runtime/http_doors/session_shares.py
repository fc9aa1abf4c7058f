"""How much of something one session may take at once, so that one that is silent leaves the rest to others.

A call of a session that has its share waits a moment for another one of that session to end: many clients ask
for several things at once, which are done in no time. If none ends, the session does not answer, and only its
own callers are refused. Used in one loop.
"""

from __future__ import annotations

import asyncio
from collections import deque

MOST_IN_LINE = 64
"""Calls of one session that wait for their turn."""
TURN_SECONDS = 5.0
"""How long they wait."""


class SessionShares:
    """The shares of all sessions; `most` calls of one may run at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._running: dict[str, int] = {}
        self._in_line: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self, session: str) -> bool:
        """Take a turn of a session; whether there was one."""
        running = self._running.get(session, 0)
        if running >= self.most:
            return False
        self._running[session] = running + 1
        return True

    async def wait(self, session: str) -> bool:
        """Take a turn, once there is one; whether there was one in time."""
        if self.take(session):
            return True
        line = self._in_line.setdefault(session, deque())
        if len(line) >= MOST_IN_LINE:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await asyncio.wait({turn}, timeout=TURN_SECONDS)
        except asyncio.CancelledError:
            if turn.done():  # it was given just now
                self.give_back(session)
            raise
        finally:
            if not turn.done():
                line.remove(turn)
                if not line:
                    self._in_line.pop(session, None)
        return turn.done()

    def give_back(self, session: str) -> None:
        """Give a turn back: to the first in line, if there is one."""
        line = self._in_line.get(session)
        if line:
            line.popleft().set_result(None)
            if not line:
                del self._in_line[session]
            return
        left = self._running[session] - 1
        if left:
            self._running[session] = left
        else:
            del self._running[session]
