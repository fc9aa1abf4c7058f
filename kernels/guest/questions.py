"""Asks a kernel for its variables, one question at a time, and remembers the last answer.

It knows messages by their ids; whether the kernel may be asked now is the caller's to know.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.kernels.guest import variables
from holdfast.kernels.guest.variables import Variables

if TYPE_CHECKING:
    from holdfast.kernels.guest.process import KernelProcess, Message

LANGUAGE = "python"


class Questions:
    """The question that is under way, if one is, and what is known."""

    def __init__(self) -> None:
        self._language = ""
        self._known = Variables(note="the kernel was not asked yet")
        self._asked: tuple[str, int] | None = None
        self._answer: asyncio.Future[None] | None = None

    def begin(self, language: str) -> None:
        """Hear that a new process of the kernel speaks that language: nothing is known of it."""
        self._language = language
        self._asked = None
        self._known = Variables(note="the kernel was not asked yet")
        self._settle()

    async def ask(self, process: KernelProcess | None, count: int, patience: float) -> Variables:
        """Ask an idle process and return the answer; without one, or if it is late, what is known.

        A late answer is known the next time.
        """
        if process is None:
            return self._known.stale()
        if self._language != LANGUAGE:
            return Variables(note=f"variables are not known of kernels of {self._language or '?'}")
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
            self._asked = (process.ask(variables.expressions()), count)
        waiting = self._answer
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(waiting)
        except TimeoutError:
            return self._known.stale()
        return self._known

    def hear(self, message: Message) -> bool:
        """Take a message of the shell channel if it is the answer."""
        if self._asked is None or message["parent_header"].get("msg_id") != self._asked[0]:
            return False
        if message["msg_type"] == "execute_reply":
            self._known = variables.parse(message["content"], self._asked[1])
            self._asked = None
            self._settle()
        return True

    def _settle(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(None)
