"""One trial: a session with some programs in it, captured in the middle of their work, restored and forked.

Thin driver: the programs, their grouping and the meaning of outcomes are decided elsewhere.
Everything a trial makes is removed at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tests.compat.programs import driver, payload
from tests.compat.programs.outcome import FORKS, Outcome, Progress, Step
from tests.compat.programs.program import Program
from tests.compat.programs.verdict import Verdict
from tests.compat.trials import Say, scratch
from tests.compat.wording import reason

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, LiveUnsupported

if TYPE_CHECKING:
    from tests.compat.programs.batches import Batch

    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot


class Together(Exception):
    """Several programs could not be captured or restored together; the culprit is not known."""

    def __init__(self, why: str, settled: list[Outcome]) -> None:
        super().__init__(why)
        self.settled = settled


class Trial:
    """The trial of the programs of one batch."""

    def __init__(self, controller: Holdfast, batch: Batch, image: str | None, say: Say) -> None:
        self._controller = controller
        self._batch = batch
        self._image = image
        self._say = say
        self._progress = {program.name: Progress() for program in batch.programs}
        self._driver = driver.Driver()
        self._since = time.monotonic()

    def run(self) -> list[Outcome]:
        """Try all of them.

        Raises:
            Together: a failure cannot be attributed to a single program; nothing is left, and the caller
                can divide them.
            HoldfastError: no session could be made.
        """
        with scratch(self._controller) as sessions:
            parent = self._controller.new(image=self._image, memory=self._batch.memory)
            sessions.append(parent)
            payload.put(parent)
            self._each(parent, self._started, "started")
            if self._going():
                self._copies(parent, sessions)
        return self._outcomes(self._batch.programs)

    def _note(self, what: str) -> None:
        self._say(f"{time.monotonic() - self._since:6.1f} s: {what}")

    def _copies(self, parent: Session, sessions: list[Session]) -> None:
        self._note("started")
        snapshot = self._captured(parent)
        if snapshot is None:
            return
        self._note(f"captured, frozen for {snapshot.row.details.frozen_seconds or 0.0:.2f} s")
        self._pass("captured")
        for count, step in ((1, "restored"), (FORKS, "forked")):
            try:
                made = snapshot.fork(count)
            except HoldfastError as error:
                self._blame(error)
                return
            sessions += made
            self._note(step)
            self._pass("restored" if step == "restored" else "forked")
            for copy in made:
                self._each(copy, self._verified(f"in a {step} session"))
            self._note("asked")
            for copy in made:
                copy.remove()
                sessions.remove(copy)
        self._each(parent, self._verified("in the captured session"), "verified")

    def _captured(self, parent: Session) -> Snapshot | None:
        try:
            return parent.snapshot()
        except LiveUnsupported as error:
            self._refused(parent, error)
        except HoldfastError as error:
            self._blame(error)
        return None

    def _refused(self, parent: Session, error: LiveUnsupported) -> None:
        """Accept a refusal if it names the program and leaves it unchanged."""
        if len(self._going()) > 1:
            self._blame(error)
        text = plain(str(error), 600)
        for program in self._going():
            progress = self._progress[program.name]
            # The text before the colon names the session, which is gone by then.
            why = text.partition(": ")[2] or text
            if not program.refusable:
                progress.failed = f"capture refused: {why}"
            elif not any(word in text for word in program.refusable):
                progress.failed = f"refused, but not by name: {why}"
            else:
                self._each(parent, self._verified("in the session, after the refusal"))
                progress.refused, progress.said = not progress.failed, why

    def _blame(self, error: HoldfastError) -> None:
        """Attribute a failure of all: to the only program, or to none in particular."""
        why = reason(error)
        going = self._going()
        if len(going) > 1:
            raise Together(why, self._outcomes(p for p in self._batch.programs if p not in going))
        for program in going:
            self._progress[program.name].failed = why

    def _started(self, session: Session, program: Program) -> None:
        try:
            self._driver.start(session, program)
        except driver.NotStarted as error:
            progress = self._progress[program.name]
            named = any(word in str(error) for word in program.refusable)
            progress.refused, why = named, plain(str(error), 400)
            progress.said = f"cannot run in a session at all: {why}"
            progress.failed = "" if named else f"cannot be started: {why}"

    def _verified(self, place: str) -> Callable[[Session, Program], None]:
        def look(session: Session, program: Program) -> None:
            progress = self._progress[program.name]
            try:
                verdict = self._driver.verdict(session, program)
            except HoldfastError as error:
                verdict = Verdict(False, plain(str(error), 400))
            progress.said = verdict.said
            if not verdict.ok:
                progress.failed = f"{place}: {verdict.said}"

        return look

    def _each(
        self, session: Session, act: Callable[[Session, Program], None], step: Step | None = None
    ) -> None:
        """Do something with every program that is still good; a failure is that program's own."""
        for program in self._going():
            progress = self._progress[program.name]
            try:
                act(session, program)
            except HoldfastError as error:
                progress.failed = reason(error)
        if step:
            self._pass(step)

    def _going(self) -> list[Program]:
        return [program for program in self._batch.programs if self._progress[program.name].going]

    def _pass(self, step: Step) -> None:
        for program in self._going():
            self._progress[program.name].passed.append(step)

    def _outcomes(self, programs: Iterator[Program] | tuple[Program, ...]) -> list[Outcome]:
        return [
            Outcome(
                program.name,
                program.family,
                program.does,
                tuple(self._progress[program.name].passed),
                self._progress[program.name].refused,
                self._progress[program.name].failed or self._progress[program.name].said,
            )
            for program in programs
        ]
