"""Interrupts the work on a real project at random moments, and lets a fresh process choose what comes next.

At each moment something happens to the session or its task. Then the command line prints the handoff, a
process that is given this text alone chooses an action, and the action is compared with the right ones, which
follow from what happened. The right one is then done, so that the work comes to its end.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interrupted.real_projects import ProjectStep, RealProject

from holdfast.runtime.api.controller import Holdfast

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session

SUCCESSOR = Path(__file__).with_name("successor.py")
EVENTS = (
    "nothing",
    "container killed",
    "suspended",
    "blocked",
    "question",
    "claimed by another",
    "failed",
    "failed twice alike",
    "command left running",
    "edited by a person",
)
BUDGET = "700"
"""Tokens of a handoff."""


@dataclass
class Moment:
    """A moment: what happened, the actions that were right then, and the one that was chosen."""

    event: str
    right: tuple[str, ...]
    chosen: str

    @property
    def good(self) -> bool:
        """Whether a right action was chosen."""
        return self.chosen in self.right


@dataclass
class Handover:
    """The work on one project in one session, by successors of which each knows a handoff alone."""

    hf: Holdfast
    project: RealProject
    draw: random.Random
    moments: list[Moment] = field(default_factory=list)

    def begin(self) -> None:
        """Make the session and its task; a checkpoint is taken after each step."""
        session = self.hf.new(self.project.name)
        assert session.exec(self.project.setup, timeout=900).ok
        session.task.set(goal=f"Finish the {self.project.name}", checkpoint="step", back_end="local")
        session.task.plan(self.project.plan())
        session.task.decide("The ledger names each step once", "it shows what ran")
        session.task.note("a second run of a step's work is visible", "risk")
        session.task.checkpoint(f"{self.project.name}-begun")

    def play(self, most: int = 60) -> None:
        """Go on until all steps are done, from moment to moment."""
        events = list(EVENTS)
        self.draw.shuffle(events)
        while not self._finished():
            assert len(self.moments) < most, self.moments
            event = events.pop() if events else "nothing"
            right, carry_on = self._happens(event)
            self.moments.append(Moment(event, right, self._chosen()))
            carry_on()
        self.moments.append(Moment("all done", ("finish",), self._chosen()))

    def ledger(self) -> list[str]:
        """Return the steps whose work ran, in order."""
        return self._session.exec("cat /workspace/ledger").text.split()

    @property
    def _session(self) -> Session:
        return self.hf.session(self.project.name)

    def _finished(self) -> bool:
        record = self._session.task.record()
        return record is not None and record.state == "done"

    def _open(self) -> list[str]:
        record = self._session.task.record()
        assert record is not None
        return [number for number, step in record.steps() if step.status != "done"]

    def _chosen(self) -> str:
        """Return what a fresh process chooses, of the text that another one prints."""
        command = [sys.executable, "-m", "holdfast", "handoff", self.project.name, "--budget", BUDGET]
        text = subprocess.run(
            command, capture_output=True, text=True, check=True, env=self._environment()
        ).stdout
        return subprocess.run(
            [sys.executable, "-I", str(SUCCESSOR)], input=text, capture_output=True, text=True, check=True
        ).stdout.strip()

    def _happens(self, event: str) -> tuple[tuple[str, ...], Callable[[], object]]:
        """Let something happen; return the right actions, and what does one of them."""
        session, number = self._session, self._open()[0]
        task = session.task
        if event == "container killed":
            self.hf.engine.client.containers.get(str(session.row.container_id)).kill()
            return ("bring back",), self._bring_back
        if event == "suspended":
            session.suspend()
            return ("bring back",), self._bring_back
        if event == "blocked":
            task.block("no access to the mirror", "an account", step=number)
            return ("unblock",), lambda: self._session.task.unblock("ada made one")
        if event == "question":
            task.note("Which name?", "question", step=number)
            return ("answer 1",), lambda: self._session.task.answer(1, "the present one")
        if event == "claimed by another":
            other = Holdfast(self.hf.home.root, actor="agent:other/z9").session(session.id).task
            other.claim(number)
            later = self._open()[1:2]
            right = f"work on {later[0]}" if later else "wait for others"
            return (right,), lambda: other.release(number)
        if event in ("failed", "failed twice alike"):
            before = self._failures(number)
            for _ in range(2 if event == "failed twice alike" else 1):
                assert not task.done(number).done, "the work of this step has not been done yet"
            alike = before + (2 if event == "failed twice alike" else 1) > 1
            return (f"work on {number}" + (" in another way" if alike else ""),), lambda: self._work(number)
        if event == "command left running":
            return self._left_running(number)
        if event == "edited by a person":
            text = task.export().replace("## Notes\n", "## Notes\n\nplease mind the gap\n")
            Holdfast(self.hf.home.root, actor="person:ada").session(session.id).task.import_(text)
        alike = self._failures(number) > 1
        return (f"work on {number}" + (" in another way" if alike else ""),), lambda: self._work(number)

    def _left_running(self, number: str) -> tuple[tuple[str, ...], Callable[[], object]]:
        waiting = f"until [ -e /tmp/go ]; do sleep 0.1; done; rm /tmp/go; {self._text(number)}"
        made = self._session.exec(waiting, key=f"step {number}", patience=0)
        assert made.running
        started = self._session.journal(kinds=["command_started"], limit=1)[-1]

        def carry_on() -> None:
            self._session.files.write("/tmp/go", "")
            assert self._session.exec(waiting, key=f"step {number}", timeout=300).ok
            assert self._session.task.done(number, busy_wait=60).done

        return (f"wait for #{started.seq}",), carry_on

    def _failures(self, number: str) -> int:
        record = self._session.task.record()
        assert record is not None
        return dict(record.steps())[number].failures

    def _bring_back(self) -> None:
        command = [sys.executable, "-m", "holdfast", "task", "resume", self.project.name, "--json"]
        subprocess.run(command, capture_output=True, check=True, env=self._environment())

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOLDFAST_HOME": str(self.hf.home.root)}

    def _work(self, number: str) -> None:
        assert self._session.exec(self._text(number), key=f"step {number}", timeout=300).ok
        assert self._session.task.done(number).done

    def _text(self, number: str) -> str:
        step: ProjectStep = self.project.steps()[number]
        return f"cd /workspace && {{ {step.work}; }} && echo {number} >> ledger"
