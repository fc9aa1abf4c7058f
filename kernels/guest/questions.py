"""Asks a kernel for its variables, one question at a time, and remembers the last answer.

It knows messages by their ids; the caller knows whether the kernel may be asked now.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.kernels.guest import variables
from holdfast.kernels.guest.variables import VariableReader

if TYPE_CHECKING:
    from holdfast.kernels.guest.process import KernelProcess, Message

LANGUAGE = "python"


class Questions:
    """The question under way, if there is one, and the last answer."""

    def __init__(self) -> None:
        self._language = ""
        self._known = VariableReader(note="the kernel has not been asked yet")
        self._asked: tuple[str, int] | None = None
        self._answer: asyncio.Future[None] | None = None

    def begin(self, language: str) -> None:
        """Forget the last answer: a new process of the kernel runs, in that language."""
        self._language = language
        self._asked = None
        self._known = VariableReader(note="the kernel has not been asked yet")
        self._settle()

    async def ask(self, process: KernelProcess | None, count: int, patience: float) -> VariableReader:
        """Ask an idle process and return the answer; without a process, or if it is late, the last answer.

        A late answer is the last answer of the next call.
        """
        if process is None:
            return self._known.stale()
        if self._language != LANGUAGE:
            return VariableReader(note=f"no variables are known for kernels of {self._language or '?'}")
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
        """Process a message of the shell channel; return True if it is the answer."""
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
