"""A kernel's present activity: the question of its cell, if one asks, else what its main thread does.

It looks and reports; it does not know how cells are run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.runtime.guest.pulse.foreground import thread_of
from holdfast.runtime.guest.pulse.input_kind import REPL, InputModes, Prompt
from holdfast.runtime.guest.pulse.state import Detail, State
from holdfast.runtime.guest.pulse.terminal_state import ForegroundSample, running

LONGEST = 500


class Observing:
    """The observer of one kernel. `note(cell, state)` records that a cell asks."""

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
