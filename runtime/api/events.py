"""Events of a session: the journal entries that a caller is likely to want.

Some events this host writes: a session does not report its own refused connections, which are read from the
rules, and does not know when its life ends. Its own claims of these kinds are ignored.
Following continues across captures, and ends with an event that says why when the session does.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import GuestDisconnected, SessionDead, SessionError, SessionPaused
from holdfast.runtime.egress import attempt_log, refusal_watch
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

OF_HOST = (attempt_log.KIND, "life_ending", "sleep_failed")
"""Kinds that this host writes."""
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
HOST_SECONDS = 5.0
"""Seconds between two looks at the host's journal, while events are followed, if no refusal brings one."""
LASTING = 1.0
"""Seconds after which a connection without traffic is one of a session in which nothing happens."""


def read(
    context: Context,
    line: SessionChannel,
    session_id: str,
    *,
    after: int,
    follow: bool,
    kinds: Collection[str] | None,
    patience: Patience | None = None,
) -> Iterator[Event]:
    """Yield events after number `after`, oldest first; with `follow` also future ones, until the session
    ends or the patience does.

    The end of the session is the last event, whatever kinds are requested. Of a session that has ended, the
    events are those that this host has kept.
    """
    patience = Patience.of(patience)
    chosen = NOTABLE if kinds is None else kinds
    wanted = [kind for kind in chosen if kind not in OF_HOST]
    hosts = _HostEvents(context, session_id, after, [kind for kind in OF_HOST if kind in chosen])
    told, began = False, time.time()
    heard = time.monotonic()
    while not patience.over:
        opened = time.monotonic()
        try:
            row = line.row
            hosts.look(row, fresh=not follow)
            if timelines.rewound_at(row) > began:  # it went back: numbers start again there
                began, after = time.time(), min(after, timelines.resumes_after(row))
            args = {"after_seq": after, "follow": follow, "kinds": wanted}
            connection = line.reconnection().run(partial(_open, line, args))
            with connection:
                patience.hold(connection)
                for event in _events(connection, line, hosts, follow=follow):
                    heard = time.monotonic()
                    if event is not None:
                        told = True
                        after = event.seq if event.kind not in OF_HOST else after
                        yield event
            yield from hosts.new()
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
            yield from _last(context, session_id, after, () if follow else chosen, str(error))
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

    def __init__(self, context: Context, session_id: str, after: int, wanted: Collection[str]) -> None:
        self._context = context
        self._session = session_id
        self._after = after
        self._wanted = wanted
        self._yielded = 0
        self._pending: list[EntryRow] = []
        self._refusals = refusal_watch.watch_of(context, session_id) if attempt_log.KIND in wanted else None
        self._others = any(kind != attempt_log.KIND for kind in wanted)
        self._read = 0
        self._next = 0.0

    def are_due(self) -> bool:
        """Return whether some can be there that are not known."""
        if self._others and time.monotonic() >= self._next:
            return True
        return self._refusals is not None and self._refusals.is_due(self._read)

    def look(self, row: SessionRow, *, fresh: bool = False) -> None:
        """Read them, once the rules' record is in the journal; `fresh`: also if it was read just now."""
        if not self._wanted or not (fresh or self.are_due()):
            return
        # 0.2 s that other commands need not spend
        from holdfast.runtime.store.journal_entries import EntryFilter

        if self._refusals is not None:
            self._read = self._refusals.read(self._context, row, fresh=fresh)
        self._next = time.monotonic() + HOST_SECONDS
        kept = EntryFilter(after=self._after, kinds=self._wanted)
        found = self._context.store.entries.stream([self._session], kept)
        self._pending = [entry for entry in found if entry.host and entry.id > self._yielded]

    def new(self, before: int | None = None) -> Iterator[Event]:
        """Return the events not reported yet: all, or only those before an entry of the session."""
        while self._pending and (before is None or self._pending[0].seq < before):
            entry = self._pending.pop(0)
            self._yielded = max(self._yielded, entry.id)
            yield Event(entry.seq, datetime.fromtimestamp(entry.at, UTC), entry.kind, entry.body)


def _events(
    connection: Connection, line: SessionChannel, hosts: _HostEvents, *, follow: bool
) -> Iterator[Event | None]:
    """Yield events in order, with the host's in between; None for anything else the guest sends."""
    for frame in _frames(connection, hosts, follow=follow):
        if follow and hosts.are_due():
            hosts.look(line.row)
            yield from hosts.new()
        if frame is None:
            continue
        if wire_fields.event(frame) != "entry":
            yield None
            continue
        event = parse(wire_fields.body(frame))
        if event.kind not in OF_HOST:
            yield from hosts.new(event.seq)
            yield event


def _frames(connection: Connection, hosts: _HostEvents, *, follow: bool) -> Iterator[Frame | None]:
    """Yield the guest's messages; None when something else is due while it is silent."""
    if follow:
        connection.is_wanted_elsewhere = hosts.are_due
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
