"""One project in a session: run plain, then with live snapshots at random times, then continued in copies.

Thin driver: comparisons are decided elsewhere. Everything a trial makes is removed at its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.compat import stacks
from tests.compat.projects import clocks, commands, moments, place
from tests.compat.projects.comparison import Run, compare
from tests.compat.projects.outcome import Capture, Outcome, said
from tests.compat.projects.project import Project
from tests.compat.trials import Say, scratch
from tests.compat.wording import reason

from holdfast.base.text import plain
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.job import Job
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot

# Plain runs before, and more of them if something differs: nondeterminism may show only then.
PLAIN, AGAIN = 2, 2


class Trial:
    """The trial of one project."""

    def __init__(
        self,
        controller: Holdfast,
        project: Project,
        *,
        seed: int,
        snapshots: int,
        say: Say,
        again: int,
        logs: Path | None = None,
    ) -> None:
        self._controller, self._project = controller, project
        self._seed, self._snapshots, self._again = seed, snapshots, again
        self._say, self._logs = say, logs
        self._sessions: list[Session] = []
        self._captures: list[Capture] = []
        self._taken: list[tuple[int, Snapshot, float]] = []
        self._missed = 0
        self._copies = 0
        self._version = ""
        self._since = time.monotonic()

    def run(self) -> Outcome:
        """Run it all, and return its row; whatever prevents a complete trial is an error in it."""
        plain_runs: list[Run] = []
        try:
            with scratch(self._controller) as self._sessions:
                return self._outcome(plain_runs)
        except HoldfastError as error:
            return self._row(plain_runs, error=reason(error, 400))

    def _outcome(self, plain_runs: list[Run]) -> Outcome:
        session = self._session()
        self._note("fetching and building")
        self._version = place.prepare(session, self._project)
        plain_runs += self._plain(session, 0, PLAIN)
        if self._project.reads and not plain_runs[0].cases:
            return self._row(
                plain_runs, error=f"no cases in a plain run, exit code {plain_runs[0].exit_code}"
            )
        others = [self._captured_in_time(session, min(run.seconds for run in plain_runs))]
        others += self._continued()
        compared = compare(plain_runs, others)
        if compared.differences:
            for difference in compared.differences[:5]:
                self._note(f"differs: {difference.line()}")
            plain_runs += self._plain(session, PLAIN, self._again)
            compared = compare(plain_runs, others)
        return self._row(plain_runs, **said(compared))

    def _session(self) -> Session:
        image = stacks.image(self._controller, self._project.stack)
        folder = self._project.folder
        mounts = [f"{folder}:{commands.GIVEN}:ro"] if folder else []
        session = self._controller.new(image=image, memory=self._project.memory, mounts=mounts)
        self._sessions.append(session)
        return session

    def _plain(self, session: Session, first: int, count: int) -> Iterator[Run]:
        for number in range(first, first + count):
            yield self._ended(session, place.start(session, self._project), f"plain run {number + 1}")

    def _ended(self, session: Session, job: Job, where: str) -> Run:
        found = place.finish(session, job, self._project, where)
        self._note(
            f"{where}: exit code {found.exit_code}, {len(found.cases)} cases, {len(found.files)} files,"
            f" {found.seconds:.1f} s {found.failure}"
        )
        if self._logs:
            name = f"{self._project.name}, {where}".replace(" ", "_")
            (self._logs / name).write_text(place.read(session), encoding="utf-8")
        return found

    def _captured_in_time(self, session: Session, seconds: float) -> Run:
        """Repeat a captured run once if it ended before the first capture, on a machine that became
        faster.
        """
        found = self._captured(session, seconds)
        if not self._captures:
            self._missed = 0
            found = self._captured(session, min(seconds, found.seconds))
        return found

    def _captured(self, session: Session, seconds: float) -> Run:
        """Return a run with snapshots at the drawn times."""
        job = place.start(session, self._project)
        since = time.monotonic()
        for share in moments.draw(self._seed, self._project.name, self._snapshots):
            time.sleep(max(0.0, since + share * seconds - time.monotonic()))
            if not job.info().running:
                self._missed += 1
                continue
            self._capture(session, share, time.monotonic() - since)
        return self._ended(session, job, "captured run")

    def _capture(self, session: Session, share: float, after: float) -> None:
        try:
            snapshot = session.snapshot()
        except HoldfastError as error:
            why = plain(str(error).partition(": ")[2] or str(error), 300)
            self._captures.append(Capture(round(share, 3), round(after, 1), refused=why))
            self._note(f"refused at {after:.1f} s: {why}")
            return
        frozen = float(snapshot.row.details.get("frozen_seconds", 0.0))
        self._taken.append((len(self._captures), snapshot, time.monotonic()))
        self._captures.append(Capture(round(share, 3), round(after, 1), round(frozen, 2)))
        self._note(f"captured at {after:.1f} s, frozen for {frozen:.2f} s")

    def _continued(self) -> Iterator[Run]:
        """Restore each snapshot, one after the other, and wait for its command."""
        for number, snapshot, taken_at in self._taken:
            where = f"copy of {self._captures[number].after:.1f} s"
            try:
                yield self._copy(where, number, snapshot, taken_at)
            except HoldfastError as error:
                self._note(f"{where}: {error}")
                yield Run(where, None, failure=plain(str(error), 300))

    def _copy(self, where: str, number: int, snapshot: Snapshot, taken_at: float) -> Run:
        waited = time.monotonic() - taken_at
        copy = snapshot.restore()
        self._sessions.append(copy)
        job = copy.job(self._job_id(copy))
        late = not job.info().running
        if late:
            self._captures[number] = replace(self._captures[number], late=True)
        found = self._ended(copy, job, where)
        if self._project.measured and not late:
            by_day = clocks.measured(place.read(copy), self._project.measured, waited, found.seconds)
            self._captures[number] = replace(self._captures[number], waited=round(waited, 1), measured=by_day)
        self._copies += found.exit_code is not None and not late
        copy.remove()
        self._sessions.remove(copy)
        return found

    def _job_id(self, copy: Session) -> str:
        return max(copy.jobs(), key=lambda info: info.started_at).id

    def _row(self, plain_runs: list[Run], *, error: str = "", **compared: object) -> Outcome:
        project = self._project
        first = plain_runs[0] if plain_runs else Run("", None)
        found = {"cases": len(first.cases), "files": len(first.files), **compared}
        return Outcome(
            project.name,
            project.kind,
            project.does,
            self._seed,
            version=self._version,
            seconds=round(first.seconds, 1),
            captures=tuple(self._captures),
            missed=self._missed,
            copies=self._copies,
            error=error,
            **found,  # type: ignore[arg-type]
        )

    def _note(self, what: str) -> None:
        self._say(f"{time.monotonic() - self._since:6.1f} s: {self._project.name}: {what}")
