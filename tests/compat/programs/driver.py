"""Starts programs in a session, waits until they are in the middle of their work, checks on them."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from tests.compat.programs import payload, verdict
from tests.compat.programs.program import Cell, Program, Run, Shows, Type
from tests.compat.programs.verdict import Verdict
from tests.compat.wording import ending

from holdfast.base.text import colored, plain
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.results import ExecResult

# Seconds. Compilers take the longest; on a busy machine everything takes its time.
PREPARING = 600.0
STARTING = 120.0
CHECKING = 150.0
_POLL = 0.05
# In the main shell a check must not exit.
_IN_THE_SHELL = 'ok() { echo "ok: $*"; }; bad() { echo "not ok: $*"; }'


class NotStarted(HoldfastError):
    """A program did not get to the middle of its work; the message quotes its output."""

    code = "program_not_started"


class Driver:
    """Communication with programs in a session and in its copies."""

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}

    def start(self, session: Session, program: Program) -> None:
        """Start a program and wait until it is in the middle of its work.

        Raises:
            NotStarted: it does not get there.
        """
        if program.prepare:
            done = _run(session, program, program.prepare, PREPARING)
            if not done.ok:
                raise NotStarted(f"its preparation failed: {ending(done.text)}")
        framed = payload.framed(program.name, program.start)
        if program.where == "cell":
            result = session.cell(program.start, timeout=STARTING)
            if not result.ok:
                raise NotStarted(ending(result.stderr or str(result.error)))
        elif program.where == "shell":
            session.exec(f"{framed}\n{_IN_THE_SHELL}", timeout=STARTING)
        elif program.where == "foreground":
            asked = session.exec(framed, timeout=STARTING)
            if not asked.waiting:
                raise NotStarted(f"it did not stay: {ending(asked.text)}")
        else:
            self._jobs[program.name] = session.detach(framed).id
        self._await(session, program)

    def _await(self, session: Session, program: Program) -> None:
        deadline = time.monotonic() + STARTING
        job = self._jobs.get(program.name)
        while not _run(session, program, program.ready, STARTING).ok:
            if job and not session.job(job).info().running:
                raise NotStarted(f"it ended: {self._said(session, program)}")
            if time.monotonic() > deadline:
                raise NotStarted(f"it is not ready after {STARTING:.0f} s: {self._said(session, program)}")
            time.sleep(_POLL)

    def verdict(self, session: Session, program: Program) -> Verdict:
        """Go through the steps of its check; the first bad answer counts, else the last."""
        found = Verdict(True, "")
        since = self._offset(session, program)
        for step in program.check:
            if isinstance(step, Type):
                self._type(session, program, step.text)
            elif isinstance(step, Shows):
                found = self._shows(session, program, step.pattern, since)
            elif isinstance(step, Cell):
                result = session.cell(step.code, timeout=CHECKING)
                found = verdict.read(result.stdout + (result.stderr if not result.ok else ""))
                if not result.ok and found.ok:
                    found = Verdict(False, ending(str(result.error)))
            elif isinstance(step, Run):
                done = _run(session, program, step.command, CHECKING, in_it=True)
                found = _late(done) or verdict.read(done.text)
            if not found.ok:
                return found
        return found

    def _type(self, session: Session, program: Program, text: str) -> None:
        job = self._jobs.get(program.name)
        if job is None:
            session.send(text)
        else:
            session.job(job).send(text)

    def _offset(self, session: Session, program: Program) -> int:
        job = self._jobs.get(program.name)
        return session.job(job).info().end_offset if job else session.shell().offset

    def _shown(self, session: Session, program: Program, since: int) -> str:
        job = self._jobs.get(program.name)
        if job is None:
            return session.terminal.screen().text
        written = session.job(job).output(since).decode("utf-8", "replace")
        return colored(written, keep=False)

    def _shows(self, session: Session, program: Program, pattern: str, since: int) -> Verdict:
        deadline = time.monotonic() + CHECKING
        while True:
            shown = self._shown(session, program, since)
            found = re.search(pattern, shown)
            if found:
                return Verdict(True, f"its terminal shows: {plain(found[0].strip(), 100)}")
            if time.monotonic() > deadline:
                return Verdict(False, f"its terminal does not show {pattern!r}, but: {ending(shown)}")
            time.sleep(_POLL)

    def _said(self, session: Session, program: Program) -> str:
        """Return the program's output, if it ended or got stuck."""
        job = self._jobs.get(program.name)
        return ending(self._shown(session, program, 0)) if job else "it said nothing"


def _late(done: ExecResult) -> Verdict | None:
    """Return the message for a check that timed out."""
    if done.timed_out or done.running:
        return Verdict(False, f"its check has not ended after {CHECKING:.0f} s: {ending(done.text)}")
    return None


def _run(
    session: Session, program: Program, command: str, seconds: float, *, in_it: bool = False
) -> ExecResult:
    if program.where == "shell" and in_it:
        return session.exec(command, timeout=seconds)
    apart = payload.apart(program.name, command)
    if program.where != "foreground":
        return session.exec(apart, timeout=seconds)
    # The shell is taken.
    return session.detach(apart).wait(wait=True, patience=seconds)
