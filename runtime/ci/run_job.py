"""Runs a job from a fresh session to its exit code: files in, command, and after a failure a capture.

The session belongs to the job. While it exists, an operation records it: if this process dies, the next one
of the home removes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, SessionDead
from holdfast.runtime.api.session import Session
from holdfast.runtime.ci import (
    checkout,
    failure_record,
    job_captures,
    job_environment,
)
from holdfast.runtime.ci.delivery import Deliveries, DeliveryTarget, command
from holdfast.runtime.ci.job_captures import CaptureLimits, JobCaptures
from holdfast.runtime.ci.job_summary import KeptCapture
from holdfast.runtime.ci.redaction import Redaction
from holdfast.runtime.ci.watched_command import CommandWatch, TimeLimits, WatchedOutcome
from holdfast.runtime.guest import layout
from holdfast.runtime.lifecycle.create import create
from holdfast.runtime.lifecycle.teardown import finish_removal
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.scrubbing import rules_file
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.terminal.uncook import Tail
from holdfast.snapshots.failure import Failure

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.runtime.ci.checkout import Checkout
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.pulse.pulse import Pulse

WAITED = 75
"""Exit code of a job that was given up because it waited for input: EX_TEMPFAIL of sysexits.h."""
TIMED_OUT = 124
"""Exit code of a job that took too long or made no progress, as of timeout(1)."""
undoes(OperationKind.CI)(finish_removal)

TAIL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class CIJob:
    """The command to run, its kind of session, and the treatment of a failure.

    Attributes:
        command: as bash reads it.
        options: of the session, as for `Holdfast.new`.
        variables: those the command has; `job_environment.chosen` makes them.
        redact: patterns of more names whose values are secret.
        checkout: the folder that goes into the session; None for none.
        written: files that are written when it is over, which do not go into the session of another job.
        setup: commands that are run before; one that fails is a failure of the job.
        captures: limit of captures that the command itself may request.
        keep: leave the session as it is when the job is over.
        job: the address of the job, for the failure record.
    """

    command: str
    options: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    checkout: Path | None = None
    written: tuple[Path, ...] = ()
    setup: tuple[str, ...] = ()
    patience: TimeLimits = field(default_factory=TimeLimits)
    limits: CaptureLimits = field(default_factory=CaptureLimits)
    destination: DeliveryTarget = field(default_factory=DeliveryTarget)
    captures: int = 5
    keep: bool = False
    job: str | None = None


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of a job.

    `session` is its name if it was left. `not_kept` is the reason for a missing live snapshot of a failed
    job.
    """

    exit_code: int
    seconds: float
    failure: Failure | None = None
    kept: tuple[KeptCapture, ...] = ()
    not_kept: str = ""
    notes: tuple[str, ...] = ()
    session: str | None = None


class JobRun:
    """The run of one job.

    Args:
        show: gets the output as it comes, without secrets.
        note: gets a line for each step that is taken after a failure.
        known: all variables of this host, whose secrets must not be shown either.
    """

    def __init__(
        self,
        context: Context,
        job: CIJob,
        *,
        show: Callable[[bytes], None],
        note: Callable[[str], None],
        known: dict[str, str],
    ) -> None:
        self._context = context
        self._job = job
        self._show = show
        rules = rules_file.read(context.home)
        names = (*job.redact, *rules.env)
        self.redaction = Redaction({**known, **job.variables}, names, rules.matcher())
        self._report = note
        self._stream = self.redaction.stream()
        self._tail = Tail(TAIL_BYTES)
        self._notes: list[str] = []
        self._watchings: list[CommandWatch] = []
        self._revision: str | None = None
        self._deliveries = Deliveries(job.destination)
        self._captures = JobCaptures(
            self._deliveries, self._completed, self._remark, job.limits.size, job.captures
        )

    def _written(self) -> list[Path]:
        """Return the folders to which this job and earlier ones write."""
        folder = self._job.destination.folder
        return [*self._job.written, *([] if folder is None else [folder])]

    def run(self) -> JobOutcome:
        """Run it to its end.

        Raises:
            KeyboardInterrupt: Ctrl-C; the session is gone.
            HoldfastError: it could not be run: no engine, no image, a checkout that cannot be read.
        """
        self._job.destination.check(self._context.home, self._remark)
        taken = None if self._job.checkout is None else checkout.look(self._job.checkout, self._written())
        try:
            return self._run(taken)
        finally:
            for each in self._watchings:
                each.leave()

    def _run(self, taken: Checkout | None) -> JobOutcome:
        with self._session(taken) as session:
            began = time.monotonic()
            owner = self._owner(session)
            if taken is not None:
                text = "copying the checkout into the session, files"
                self._context.doing(text, 0, len(taken.entries))
                container = str(session.row.container_id)
                staging = self._context.home.staging
                told = partial(self._context.doing, text)
                checkout.put(self._context.engine, container, taken, owner, staging, told)
                self._notes += taken.notes
                self._revision = taken.revision
                self._context.idle()
            with self._captures.serve(session):
                outcome = self._commands(session, f"{owner[0]}:{owner[1]}", began)
            outcome = self._delivered(outcome)
            return replace(outcome, session=session.name) if self._job.keep else outcome

    @contextmanager
    def _session(self, taken: Checkout | None) -> Iterator[Session]:
        """Yield the session of the job, which ends with it."""
        open_, _ = job_environment.split(self._job.variables, self.redaction)
        options = {**self._job.options, "env": open_}
        if taken is not None and taken.inside and not options.get("workdir"):
            options["workdir"] = str(layout.WORKSPACE / taken.inside)
        name = f"ci-{ids.new_id()[:8]}"
        if self._job.keep:
            yield Session(self._context, create(self._context, name, **options))
            return
        with carry_out(self._context, OperationKind.CI, details=OperationDetails.of(session=name)):
            session = Session(self._context, create(self._context, name, **options))
            yield session
            session.remove()

    def _commands(self, session: Session, owner: str, began: float) -> JobOutcome:
        _, hidden = job_environment.split(self._job.variables, self.redaction)
        for number, text in enumerate([*self._job.setup, self._job.command]):
            if number < len(self._job.setup):
                shown = self.redaction.text(text)
                self._context.progress(f"setup: {shown}")
                self._context.doing(f"setup: {plain(shown, 100)}", number + 1, len(self._job.setup))
            whole = text
            if hidden:
                job_environment.hand_over(self._context.engine, str(session.row.container_id), hidden, owner)
                whole = job_environment.around(text, hidden)
            watching = CommandWatch(self._context, session, self._output)
            self._watchings.append(watching)
            started = time.monotonic()
            try:
                watched = watching.run(whole, began, self._job.patience)
            except SessionDead as error:
                return self._lost(text, error, time.monotonic() - started)
            finally:
                self._context.idle()
            if watched.result is not None:
                self._flush()
            if watched.result is None or failure_record.exit_code(watched) != 0:
                seconds = time.monotonic() - started
                is_setup = number < len(self._job.setup)
                return self._failed(session, text, watched, seconds, is_setup=is_setup)
        return JobOutcome(0, time.monotonic() - began, notes=tuple(self._notes))

    def _failed(
        self,
        session: Session,
        text: str,
        watched: WatchedOutcome,
        seconds: float,
        *,
        is_setup: bool,
    ) -> JobOutcome:
        found = failure_record.of(
            text,
            watched,
            self.redaction.data(self._tail.value()),
            self._pulse(session),
            seconds=seconds,
        )
        if is_setup:
            found = found.model_copy(update={"message": f"setup: {found.message}".rstrip(": ")})
        found = self._completed(found)
        self._note(f"{found.title}{': ' if found.message else ''}{found.message}")
        kept: tuple[KeptCapture, ...] = ()
        why = ""
        if watched.result is None or not self._captures.of_failures:
            kept, why = self._keep(session, found)
        self._flush()
        code = failure_record.exit_code(watched)
        return JobOutcome(code, seconds, found, kept, why, tuple(self._notes))

    def _lost(self, text: str, error: SessionDead, seconds: float) -> JobOutcome:
        """Return the outcome of a session that ended on its own, with nothing left to capture."""
        self._flush()
        found = self._completed(
            Failure(
                reason="failed",
                command=text,
                message=f"its session ended: {error}",
                tail=self.redaction.data(self._tail.value()).decode("utf-8", "replace"),
            )
        )
        self._note(f"{found.title}: {found.message}")
        return JobOutcome(1, seconds, found, (), self.redaction.text(str(error)), tuple(self._notes))

    def _completed(self, found: Failure) -> Failure:
        """Return a record completed with the facts about the job, and without secrets."""
        known = {"job": self._job.job, "revision": self._revision}
        return self.redaction.failure(found.model_copy(update=known))

    def _delivered(self, outcome: JobOutcome) -> JobOutcome:
        """Return the outcome with the captures that the command itself requested."""
        asked = self._captures.deliver()
        for each in asked:
            self._note(f"thaw {each.title}: {each.thaw}")
        return replace(outcome, kept=(*outcome.kept, *asked), notes=tuple(self._notes))

    def _keep(self, session: Session, found: Failure) -> tuple[tuple[KeptCapture, ...], str]:
        """Capture the session and deliver it; return the results, and the reason if less was kept than
        wanted."""
        self._note("capturing the session in its present state")
        captured = job_captures.capture_failure(session, found, self._job.limits)
        why = self.redaction.text(captured.why)
        if why:
            self._note(f"not captured alive: {why}")
        if captured.snapshot is None:
            return (), why
        snapshot, stood = captured.snapshot, captured.snapshot.row.details.frozen_seconds
        self._note(f"captured: {snapshot.size / 1e6:.3g} MB, the session was frozen for {stood:.2f} s")
        try:
            kept = self._deliveries.deliver(
                snapshot, self._deliveries.name("failure"), found.title, self._remark
            )
        except HoldfastError as error:
            here = KeptCapture(found.title, command(snapshot.name), snapshot.size, snapshot.kind)
            self._remark(f"{error}; it stays in the home of this machine")
            kept = here
        self._note(f"thaw it: {kept.thaw}")
        return (kept,), why

    def _note(self, text: str) -> None:
        self._report(self.redaction.text(text))

    def _remark(self, text: str) -> None:
        """Report it now, and in the summary."""
        if text not in self._notes:
            self._notes.append(self.redaction.text(text))
            self._note(text)

    def _pulse(self, session: Session) -> Pulse | None:
        with suppress(HoldfastError):
            return session.pulse(parts=("processes", "sockets", "terminals", "limits"))
        return None

    def _owner(self, session: Session) -> tuple[int, int]:
        engine, container = self._context.engine, str(session.row.container_id)
        return checkout.identity(engine.files.read(container, "/etc/passwd"), self._job.options.get("user"))

    def _output(self, data: bytes) -> None:
        self._tail.feed(data)
        if shown := self._stream.feed(data):
            self._show(shown)

    def _flush(self) -> None:
        if shown := self._stream.end():
            self._show(shown)
