"""The state and history of a session, as its handle offers them. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.runtime.api import events
from holdfast.runtime.api import job as jobs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from holdfast.runtime.api.events import EventPlace
    from holdfast.runtime.api.job import Job
    from holdfast.runtime.api.job_info import JobInfo
    from holdfast.runtime.guest_rpc.event import Event
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.pulse.metrics_history import Metrics
    from holdfast.runtime.pulse.pulse import Port, Pulse
    from holdfast.runtime.store.entry import Entry


PORT_SECONDS = 60.0
"""How long `wait_port` waits on its own."""


class SessionInsight:
    """Insight into one session."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    def jobs(self) -> list[JobInfo]:
        """Return the commands started by `detach`, oldest first; of ended ones, the last 200."""
        return jobs.listed(self._line)

    def job(self, ref: str) -> Job:
        """Return the job with that id or name, or with these first digits of its id."""
        return jobs.Job(self._line, jobs.listed(self._line, ref)[0].id)

    def events(
        self,
        after: int = 0,
        *,
        follow: bool = False,
        kinds: Collection[str] | None = None,
        patience: Patience | None = None,
    ) -> Iterator[Event]:
        """Yield the events of the session, oldest first: deaths with their cause, waits, viewers.

        Args:
            after: the `seq` of the last event that is known.
            follow: continue with future events until the session ends; that is the last event.
            kinds: kinds of journal entries; all notable ones by default.
            patience: another thread ends the iteration with it.
        """
        return events.read(
            self._line.context,
            self._line,
            self._line.known.id,
            place=events.EventPlace(after),
            follow=follow,
            kinds=kinds,
            patience=patience,
        )

    def events_from(
        self, place: EventPlace, kinds: Collection[str] | None, patience: Patience, rest: float | None
    ) -> Iterator[Event]:
        """Follow the events from a place on, which is moved along; `rest` is as for `events.read`."""
        line = self._line
        how: dict[str, Any] = {"follow": True, "kinds": kinds, "patience": patience, "rest": rest}
        return events.read(line.context, line, line.known.id, place=place, **how)

    def drift(self, since: str | None = None, *, everything: bool = False) -> Drift:
        """Return the changes since a point in time: files, packages, processes, ports, variables, kernel
        names.

        Args:
            since: a snapshot, a journal entry (`#12`), the id of a command or cell, `10m`, or a time. By
                default the newest snapshot of the session or the one that it was restored from, and its
                beginning if it was never captured.
            everything: include caches and the like.

        Raises:
            InvalidArgument: `since` names no point in the past of this session.
        """
        from holdfast.runtime.history.drift.session_drift import DriftQuery

        with self._line.explained():
            return DriftQuery(self._line.context, self._line.fresh()).answer(since, everything=everything)

    def metrics(self, since: datetime | None = None) -> list[Metrics]:
        """Return the processors, memory and disk that the session used in the last day, oldest first.

        A server of its home takes samples while it serves: of the last hour every 5 s, before that every
        minute.

        Args:
            since: only samples from then on; all by default.
        """
        from holdfast.runtime.pulse.metrics_history import MetricsHistory

        history = MetricsHistory(self._line.context.home.metrics / self._line.known.id)
        return history.metrics(0.0 if since is None else since.timestamp())

    def journal(
        self,
        after: int | None = None,
        *,
        kinds: Collection[str] | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        grep: str | None = None,
        all_timelines: bool = False,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return the journal of the session and of its ancestors, oldest first; also after the session was
        removed.

        Args:
            after: the `seq` of an entry; only later ones.
            kinds: kinds of entries; all by default.
            actor: an actor such as `person:alice`, or a kind of actor.
            since: only entries from then on.
            grep: a text that they contain, ignoring case.
            all_timelines: include what happened after the points that sessions were restored from, and in
                other forks; such entries are not `current`.
            limit: only this many of the newest.
        """
        from holdfast.runtime.journal import journal_query

        moment = None if since is None else since.timestamp()
        wanted = journal_query.Filter(after, kinds, actor, moment, grep)
        return journal_query.read(
            self._line.context, self._line.known.id, wanted, all_timelines=all_timelines, limit=limit
        )

    def pulse(
        self,
        *,
        parts: Sequence[str] | None = None,
        files: bool = False,
        pid: int | None = None,
        file: str | None = None,
        screens: bool = False,
        disk: bool = False,
        since: str | None = None,
    ) -> Pulse:
        """Return the current activity: processes, files, sockets, terminals, kernels, limits. Disturbs
        nothing.

        Args:
            parts: only these of processes, files, sockets, limits, terminals, kernels, variables.
            files: list all open files of each process, not only the first 64.
            pid: examine this process more closely.
            file: find the processes that have this file open; the path can be relative to the shell's
                directory.
            screens: include what the terminals show.
            disk: compare the files with the image, which can take seconds.
            since: instead, list the files that changed since a snapshot or another point in time, as
                `drift` does.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.api import pulse_calls

        line = self._line
        found = pulse_calls.look(line, line.known, parts=parts, files=files, pid=pid, file=file)
        if screens:
            found = pulse_calls.with_screens(line, found)
        if since is not None:
            return pulse_calls.with_drift(found, self.drift(since))
        return (
            pulse_calls.with_disk(self._line.context, self._line, self._line.known, found) if disk else found
        )

    def port(self, number: int, *, speak: bool = True) -> Port:
        """Return the process that listens at a port, and whether it answers (`speak`: to an HTTP HEAD
        request).

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.api import pulse_calls

        return pulse_calls.port(self._line, self._line.known, number, speak=speak)

    def wait_port(self, number: int, *, patience: float | Patience | None = PORT_SECONDS) -> Port:
        """Wait until a server in the session accepts connections at a port, and return the listener.

        Args:
            number: a port of the session's loopback, or of all its addresses.
            patience: seconds after which it is an error, or a `Patience`; None for as long as it takes.

        Raises:
            PortClosed: nothing accepted there in time.
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.api import pulse_calls

        return pulse_calls.wait_port(self._line, self._line.known, number, patience=patience)
