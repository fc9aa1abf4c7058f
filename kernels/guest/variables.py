"""The names a user has in a kernel: asked for, one question at a time, and the last answer remembered.

The question is one expression, evaluated by a silent request that leaves no trace: neither in the history nor
in the namespace. `look_inside.py` runs in the kernel, as text: its Python may be a different one. Expression
and parsing are pure; `Questions` knows messages by their ids, and its caller whether the kernel may be asked.
"""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.value_classes import dataclass, replace

if TYPE_CHECKING:
    from holdfast.kernels.guest.process import KernelProcess, Message


KEY = "holdfast"
LIMIT = 500
"""Limit of reported names; of a kernel with more, the newest."""
PATIENCE = 1.0
"""Seconds an idle kernel may take; it may run something else in its loop."""
_MAX_ANSWER = 4 << 20
LANGUAGE = "python"


@dataclass(frozen=True, slots=True)
class VariableReader:
    """A kernel's variables. Rows have name, type, kind, identity; length, bytes, shape, dtype, digest where
    known.

    `current` is False if the kernel could not be asked now: then the rows are as of cell `as_of`, or `note`
    says why nothing is known. `identity` changes whenever the name stands for another object; `digest`
    whenever a number or a text changes.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    left_out: int = 0
    as_of: int | None = None
    current: bool = False
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it for the wire."""
        return {
            "rows": [dict(row) for row in self.rows],
            "left_out": self.left_out,
            "as_of": self.as_of,
            "current": self.current,
            "note": self.note,
        }

    def stale(self) -> VariableReader:
        """Return it marked as known from before."""
        return replace(self, current=False)


@cache
def expressions(limit: int = LIMIT) -> dict[str, str]:
    """Return the expressions of the request. Names of the user's, such as `eval`, change nothing."""
    source = Path(__file__).with_name("look_inside.py").read_text("utf-8")
    return {
        KEY: f"(lambda b, shell, own: (b.exec({source!r}, own), "
        f"own['look'](shell.user_ns, shell.user_ns_hidden, {limit}))[1])"
        "(__import__('builtins'), __import__('IPython').get_ipython(), {})"
    }


def parse(content: Mapping[str, Any], as_of: int) -> VariableReader:
    """Return the variables in a reply."""
    try:
        found = content["user_expressions"][KEY]
        if found["status"] != "ok":
            return VariableReader(
                note=f"the kernel could not list them: {str(found.get('ename', '?'))[:100]}"
            )
        text = found["data"]["text/plain"]
        if len(text) > _MAX_ANSWER:
            return VariableReader(note="the kernel's answer is too long")
        value = json.loads(ast.literal_eval(text))
        rows = tuple(row for row in value["rows"] if isinstance(row.get("name"), str))
        return VariableReader(rows, int(value["left_out"]), as_of, current=True)
    except (KeyError, TypeError, ValueError, AttributeError, SyntaxError, RecursionError, MemoryError):
        return VariableReader(note="the kernel's answer is not valid")


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
            self._asked = (process.ask(expressions()), count)
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
            self._known = parse(message["content"], self._asked[1])
            self._asked = None
            self._settle()
        return True

    def _settle(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(None)
