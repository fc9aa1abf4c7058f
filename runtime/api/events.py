"""Events of a session: the journal entries that a caller is likely to want.

Some events this host writes: a session does not report its own refused connections, which are read from the
rules, and does not know when its life ends. Its own claims of these kinds are ignored.
Following continues across captures, and ends with an event that says why when the session does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import GuestDisconnected, SessionDead, SessionError, SessionPaused
from holdfast.runtime.egress import attempt_log, host_event_watch
from holdfast.runtime.egress.host_event_watch import KINDS as OF_HOST
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import reconnect, wire_fields
from holdfast.runtime.guest_rpc.event import LATEST, Event, parse
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.store import timelines

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.guest_client import Connection
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.journal_entries import EntryRow
    from holdfast.runtime.store.rows import SessionRow

NOTABLE = (
    "process_exited",
    "oom",
    "no_free_process",
    "job_started",
    "job_ended",
    "kernel_died",
    "shell_ended",
    "shell_opened",
    "shell_closed",
    "waiting",
    "woken",
    "restarted",
    "attached",
    "detached",
    "lease",
    "hook_failed",
    *OF_HOST,
)
"""Kinds that are reported unless others are requested."""
# Before reconnecting: a session that only hangs up must not keep us busy.
PAUSE = 0.005
LASTING = 1.0
"""Seconds after which a connection without traffic is one of a session in which nothing happens."""


class EventPlace:
    """The position of a reader of a session's events, from which the next reading continues.

    `after` is the number of the last event of the session, `of_host` the id of the last entry of this host.
    """

    def __init__(self, after: int) -> None:
        self.after, self.of_host, self.began = after, 0, time.time()
        self.rests = False
        """True if the last reading returned because nothing happened."""


def read(
    context: Context,
    line: SessionChannel,
    session_id: str,
    *,
    place: EventPlace,
    follow: bool,
    kinds: Collection[str] | None,
    patience: Patience | None = None,
    rest: float | None = None,
) -> Iterator[Event]:
    """Yield the events after a place, oldest first; with `follow` also future ones, until the session
    ends, the patience does, or `rest` seconds have passed without an event. The place is moved along.

    The end of the session is the last event, whatever kinds are requested. Of an ended session, the events
    are those kept by this host.
    """
    patience = Patience.of(patience)
    chosen = NOTABLE if kinds is None else kinds
    wanted = [kind for kind in chosen if kind not in OF_HOST]
    hosts = _HostEvents(context, session_id, place, [kind for kind in OF_HOST if kind in chosen])
    told, place.rests = False, False
    lull = _Lull(rest)
    heard = time.monotonic()
    while not patience.over:
        opened = time.monotonic()
        try:
            row = line.row
            hosts.look(row, fresh=not follow)
            if timelines.rewound_at(row) > place.began:  # it went back: numbers start again there
                place.began, place.after = time.time(), min(place.after, timelines.resumes_after(row))
            args = {"after_seq": place.after, "follow": follow, "kinds": wanted}
            connection = line.reconnection().run(partial(_open, line, args))
            with connection:
                patience.hold(connection)
                for event in _events(connection, line, hosts, lull, follow=follow):
                    heard = time.monotonic()
                    if event is not None:
                        told = True
                        place.after = event.seq if event.kind not in OF_HOST else place.after
                        yield event
            yield from hosts.new()
            place.rests = lull.is_over
            return
        except GuestDisconnected:
            # A capture closes connections; the next request finds out whether the session still exists.
            now = time.monotonic()
            if follow and now - opened > LASTING:
                heard = now
            if now - heard > reconnect.SILENCE_SECONDS and not patience.over:
                raise
            time.sleep(PAUSE)
        except SessionError as error:
            # Half a list would look like a whole one: what is lost on the way is an error.
            ended_before = isinstance(error, SessionDead) and not told
            if isinstance(error, SessionPaused) or not (follow or ended_before):
                raise
            yield from _last(context, session_id, place.after, () if follow else chosen, str(error))
            return


def _last(
    context: Context, session_id: str, after: int, kinds: Collection[str], message: str
) -> Iterator[Event]:
    """Yield the events of some kinds that this host has kept of a session that has ended, and its end."""
    from holdfast.runtime.journal import journal_query

    wanted = journal_query.Filter(after, kinds)
    for entry in journal_query.read(context, session_id, wanted) if kinds else ():
        if entry.host == (entry.kind in OF_HOST):
            after = max(after, entry.seq)
            moment = datetime.fromtimestamp(min(entry.at, LATEST), UTC)
            yield Event(entry.seq, moment, entry.kind, entry.details)
    yield ended(context, session_id, after, message)


class _HostEvents:
    """Events of a session that this host writes into its journal, refused connections among them."""

    def __init__(self, context: Context, session_id: str, place: EventPlace, wanted: Collection[str]) -> None:
        self._context = context
        self._place, self._after = place, place.after
        self._wanted = wanted
        self._pending: list[EntryRow] = []
        self._taken = place.of_host
        self._begins = True
        self._watch = host_event_watch.watch_of(context, session_id) if wanted else None
        self._refusals = attempt_log.KIND in wanted

    def are_due(self) -> bool:
        """Return whether there can be unknown events."""
        watch = self._watch
        return watch is not None and (watch.newest > self._taken or watch.is_due(refusals=self._refusals))

    def look(self, row: SessionRow, *, fresh: bool = False) -> None:
        """Read them, once the rules' record is in the journal; `fresh`: even after a recent reading."""
        watch = self._watch
        if watch is None or not (fresh or self._begins or self.are_due()):
            return
        watch.look(self._context, row, refusals=self._refusals, begins=self._begins, fresh=fresh)
        self._begins = False
        newest = watch.newest
        for entry in watch.after(self._taken):
            if entry.seq >= self._after and entry.kind in self._wanted:
                self._pending.append(entry)
        self._pending.sort(key=lambda entry: (entry.seq, entry.id))
        self._taken = newest

    def new(self, before: int | None = None) -> Iterator[Event]:
        """Return the unreported events: all, or only those before an entry of the session."""
        while self._pending and (before is None or self._pending[0].seq < before):
            entry = self._pending.pop(0)
            self._place.of_host = max(self._place.of_host, entry.id)
            yield Event(entry.seq, datetime.fromtimestamp(entry.at, UTC), entry.kind, entry.body)


class _Lull:
    """The time without an event; it expires after some seconds, and never without a number of them."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.heard()

    def heard(self) -> None:
        """Restart the time."""
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        """True once the time has expired."""
        return self._seconds is not None and time.monotonic() - self._since >= self._seconds


def _events(
    connection: Connection, line: SessionChannel, hosts: _HostEvents, lull: _Lull, *, follow: bool
) -> Iterator[Event | None]:
    """Yield events in order, with the host's in between; None for anything else the guest sends."""
    for frame in _frames(connection, lambda: hosts.are_due() or lull.is_over, follow=follow):
        if follow and hosts.are_due():
            hosts.look(line.row)
            for event in hosts.new():
                lull.heard()
                yield event
        if frame is None:
            if lull.is_over:
                return
            continue
        if wire_fields.event(frame) != "entry":
            yield None
            continue
        event = parse(wire_fields.body(frame))
        if event.kind not in OF_HOST:
            lull.heard()
            yield from hosts.new(event.seq)
            yield event


def _frames(
    connection: Connection, is_wanted_elsewhere: Callable[[], bool], *, follow: bool
) -> Iterator[Frame | None]:
    """Yield the guest's messages; None when other work is due while the guest is silent."""
    if follow:
        connection.is_wanted_elsewhere = is_wanted_elsewhere
    while True:
        try:
            yield from connection.events(bounded=not follow)
            return
        except GuestDisconnected as error:
            if not follow or not isinstance(error.__cause__, TimeoutError):
                raise
            yield None


def _open(line: SessionChannel, args: dict[str, Any]) -> Connection:
    return line.client().open("journal", **args)


def ended(context: Context, session_id: str, seq: int, message: str) -> Event:
    """Return the event of a session that cannot be followed any further."""
    row = context.store.find_session(session_id, removed=True)
    data: dict[str, Any] = {
        "session": session_id,
        "cause": row.state if row else "removed",
        "message": message,
    }
    if row is not None and row.state == "dead" and row.container_id is not None:
        state = context.engine.inspect(row.container_id)
        if state is not None:
            data |= {"cause": "oom" if state.oom_killed else "exited", "exit_code": state.exit_code}
    return Event(seq, datetime.now(UTC), "session_ended", data)
