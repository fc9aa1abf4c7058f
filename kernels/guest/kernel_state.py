"""The state of a kernel: its present activity, and the names a user has in it.

Activity is the question of its cell, if one asks, else what its main thread does. Names are asked for, one
question at a time, and the last answer is remembered. The question is one expression, evaluated by a silent
request that leaves no trace: neither in the history nor in the namespace. `look_inside.py` runs in the
kernel, as text: its Python can be a different one. Expression and parsing are pure; `VariableQuestions`
knows messages by their ids; its caller knows when the kernel can be asked. How cells are run is not known
here.
"""

from __future__ import annotations

import ast
import asyncio
import json
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.value_classes import as_table, dataclass, replace
from holdfast.runtime.guest.pulse.foreground import thread_of
from holdfast.runtime.guest.pulse.input_kind import REPL, InputModes, Prompt
from holdfast.runtime.guest.pulse.state import Detail, State
from holdfast.runtime.guest.pulse.terminal_state import ForegroundSample, running

if TYPE_CHECKING:
    from holdfast.kernels.guest.process import KernelProcess, Message

LONGEST = 500


class KernelActivity:
    """The observer of one kernel. `note(cell, state)` records that a cell asks for input."""

    def __init__(self, kernel: str, note: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._kernel = f"kernel {kernel}"
        self._note = note
        self._question: State | None = None
        self._since = 0.0

    def began(self) -> None:
        """Note that a cell is being run."""
        self._question, self._since = None, time.time()

    def asked(self, cell: str, head: Mapping[str, Any], pid: int | None) -> None:
        """Note that a cell asks for input."""
        prompt = str(head.get("prompt", ""))[-LONGEST:]
        state = State("waiting", _kind(prompt, head), pid, self._kernel, time.time(), prompt)
        self._question = state
        self._note(cell, state.as_dict())

    def answered(self) -> None:
        """Note that the question was answered."""
        self._question = None

    def state(self, name: str, pid: int | None, returncode: int | None) -> State:
        """Return the present activity; `name` is the kernel's state as clients know it."""
        if name == "starting":
            return State("starting", pid=pid)
        if name == "dead":
            code = returncode or 0
            return State(
                "exited",
                pid=pid,
                command=self._kernel,
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
            )
        if name == "idle":
            return State("idle", pid=pid, command=self._kernel)
        if self._question:
            return self._question
        return State("running", _detail(pid), pid, self._kernel, self._since)


def _kind(prompt: str, head: Mapping[str, Any]) -> Detail:
    if head.get("password") is True:
        return "password"
    return "repl" if REPL.match(prompt) else "line"


def _detail(pid: int | None) -> Detail:
    thread = thread_of(pid) if pid else None
    if thread is None:
        return "cpu"
    return running(ForegroundSample([thread], InputModes(), Prompt(), {}, {})).detail or "cpu"


KEY = "holdfast"
LIMIT = 500
"""Limit of reported names; of a kernel with more, the newest."""
PATIENCE = 1.0
"""Seconds an idle kernel can take; it can run something else in its loop."""
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
        """Return the fields for the wire."""
        return as_table(self)

    def stale(self) -> VariableReader:
        """Return the variables marked as earlier knowledge."""
        return replace(self, current=False)


@cache
def expressions(limit: int = LIMIT) -> dict[str, str]:
    """Return the expressions of the request. The user's own names, such as `eval`, do not affect them."""
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


class VariableQuestions:
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
