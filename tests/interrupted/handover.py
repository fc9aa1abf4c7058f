"""Hands the work on a real project over at random moments, to fresh processes that know a handoff alone.

At each moment something happens to the session or its task. Then the command line prints the handoff, a
process that is given this text chooses an action, and the action is compared with the right ones, which
follow from the events. The chosen action is then carried out, with the command that the handoff names.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.interrupted import happenings
from tests.interrupted.happenings import EVENTS, Happened
from tests.interrupted.real_projects import RealProject

from holdfast.runtime.api.controller import Holdfast

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session

SUCCESSOR = Path(__file__).with_name("successor.py")
BUDGET = "700"
"""Tokens of a handoff."""
_MOST = 60
"""Moments of one job."""


@dataclass(frozen=True)
class Moment:
    """A moment: the event, the right actions, and a successor's reading of the handoff."""

    event: str
    happened: Happened
    chosen: dict[str, Any]
    back_end: str

    @property
    def good(self) -> bool:
        """Whether a right action was chosen, with all that it takes."""
        known = set(self.happened.look_at) <= set(self.chosen["look_at"])
        used = self.chosen["back_end"] == self.back_end
        return self.chosen["action"] in self.happened.right and known and used


@dataclass
class Handover:
    """The work on one project in one session, by successors of which each knows a handoff alone."""

    hf: Holdfast
    project: RealProject
    draw: random.Random
    moments: list[Moment] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Texts that were said into the record, and must be found in it at the end."""
    name: str = ""
    back_end: str = "local"

    def begin(self) -> None:
        """Make the session and its task; a checkpoint is taken after each step."""
        self.name = self.project.name
        session = self.hf.new(self.name)
        assert session.exec(self.project.setup, timeout=900).ok
        session.task.set(goal=f"Finish the {self.name}", checkpoint="step", back_end=self.back_end)
        session.task.plan(self.project.plan())
        session.task.decide("Each step's work is sent with the key 'step N'", "so that it runs once")
        session.task.note("a second run of a step's work is visible", "risk")
        session.task.checkpoint(f"{self.name}-begun")
        self.said += ["so that it runs once", "a second run of a step's work is visible"]

    def play(self, events: list[str]) -> None:
        """Let these things happen in turn, and then nothing until all steps are done."""
        left = list(reversed(events))
        while self.open():
            assert len(self.moments) < _MOST, self.moments
            event = left.pop() if left else "nothing"
            self._moment(event, EVENTS[event](self))
        assert not left, f"the job was done before {left}"
        self._moment("all done", Happened(("finish",)))

    def wrong(self) -> list[str]:
        """Return duplicate or missing effects after the end of the work."""
        steps = self.project.steps()
        counted = Counter(self.lines_of_ledger())
        found = [
            f"the work of {number} ran {counted[number]} times" for number in steps if counted[number] != 1
        ]
        text = self.session.task.export()
        found += [f"the record lacks: {each}" for each in self.said if each not in text]
        found += [
            f"step {number} does not hold"
            for number, step in steps.items()
            if number[0] == list(steps)[-1][0] and not self.session.exec(f"( {step.verify} )", timeout=300).ok
        ]
        return found

    def lines_of_ledger(self) -> list[str]:
        """Return the steps whose work ran, in order."""
        return self.session.files.read("/workspace/ledger").decode().split()

    @property
    def session(self) -> Session:
        """The session in which the work is."""
        return self.hf.session(self.name)

    def open(self) -> list[str]:
        """Return the numbers of the steps that are not done."""
        record = self.session.task.record()
        assert record is not None
        return [number for number, step in record.steps() if step.status != "done"]

    def failures(self, number: str) -> int:
        """Return how often a step has failed."""
        record = self.session.task.record()
        assert record is not None
        return dict(record.steps())[number].failures

    def text(self, number: str) -> str:
        """Return the shell's text that does the work of a step."""
        return f"cd /workspace && {{ {self.project.steps()[number].work}; }} && echo {number} >> ledger"

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        """Start the command line in a process of its own."""
        return happenings.started(str(self.hf.home.root), *words)

    def command(self, *words: str, text: bool = True) -> str:
        """Run the command line."""
        made = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            capture_output=True,
            text=True,
            env=self._environment(),
        )
        assert made.returncode == 0, f"{words}: {made.stdout}{made.stderr}"
        return made.stdout

    def _moment(self, event: str, happened: Happened) -> None:
        text = self.command("handoff", self.name, "--budget", BUDGET)
        chosen = subprocess.run(
            [sys.executable, "-I", str(SUCCESSOR)], input=text, capture_output=True, text=True, check=True
        ).stdout
        moment = Moment(event, happened, json.loads(chosen), self.back_end)
        self.moments.append(moment)
        assert moment.good, f"{event}: {happened.right} was right, and {chosen} was chosen of\n{text}"
        happened.then()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: self._carry_out(moment.chosen), range(1 + happened.twice)))
        action = str(moment.chosen["action"])
        if action.startswith("wait for #"):  # it has waited, and the next conversation begins after that
            number = self.open()[0]
            self._moment(f"{event}, later", Happened((f"verify {number}",)))

    def _carry_out(self, chosen: dict[str, Any]) -> None:
        action, _, number = str(chosen["action"]).removesuffix(" in another way").rpartition(" ")
        if action == "work on":
            how = (self.text(number), "--key", f"step {number}", "--busy-wait", "60")
            self.command("exec", self.name, *how)
        command = str(chosen["command"])
        if action == "answer":
            answer = f"the present one, at moment {len(self.moments)}"
            command = command.replace("TEXT", shlex.quote(answer))
            self.said.append(answer)
        if command.startswith("holdfast task done "):
            command += " --busy-wait 60"
        if command:
            made = subprocess.run(
                ["bash", "-c", f'holdfast() {{ "{sys.executable}" -m holdfast "$@"; }}; {command}'],
                capture_output=True,
                text=True,
                env=self._environment(),
            )
            assert made.returncode == 0, f"{command}: {made.stdout}{made.stderr}"

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOLDFAST_HOME": str(self.hf.home.root),
            "HOLDFAST_RUN": f"w{len(self.moments)}",
        }
