"""Carries out what lifetimes say: announces ends, ends sessions, puts unused ones to sleep.

`DueSteps` plans, and is pure; the functions carry out one step of one session each, for a server or for
`holdfast autosnap`. Several processes can do so at the same time: each step looks again, under the session's
lock or in one transaction. `Watch` remembers when to try again after a failure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from holdfast.errors import HoldfastError, SessionBusy, SessionNotFound, SnapshotInUse, SnapshotNotFound
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import teardown
from holdfast.runtime.lifetimes import time_unused
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.lifetime import Lifetime

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotKind, SnapshotRow

ACTOR = "system:lifetime"
Step = Literal["warn", "end", "idle"]
Done = Literal["", "suspended", "removed"]
"""The fate of a session; empty if it continues."""
LOOK_SECONDS = 10.0
"""The longest time until a change by another process is noticed."""
BUSY_SECONDS, LONGEST_SECONDS = 1.0, 300.0
"""Seconds until the next attempt: with a session that is busy, and the most after failures."""
USE_SECONDS = 15.0
"""How exactly uses are noted that no journal records."""


@dataclass(frozen=True, slots=True)
class DueSteps:
    """The steps that are due now, and the seconds until something can be due again."""

    steps: tuple[tuple[str, Step], ...]
    pause: float

    @classmethod
    def of(cls, rows: Iterable[SessionRow], used: Mapping[str, float], now: float) -> DueSteps:
        """Return the plan for all sessions, `used` being when some were last seen to be used.  Pure.

        Ends come first: they ask nothing of a session, which can keep its caller waiting.
        """
        steps: list[tuple[str, Step]] = []
        pause = LOOK_SECONDS
        for row in rows:
            if lifetime.DETAIL not in row.details and "sandbox" not in row.details:
                continue
            found = Lifetime.of(row.details)
            if found.due(row.state, now):
                steps.append((row.id, "end"))
                continue
            if found.warns(row.state, now):
                steps.append((row.id, "warn"))
            if (idle := found.idle_from(row.state)) is not None:
                may_be_in = used.get(row.id, -math.inf) + idle - now
                if may_be_in <= 0:
                    steps.append((row.id, "idle"))
                else:
                    pause = min(pause, may_be_in)
            if (left := found.next_look(row.state, now)) is not None:
                pause = min(pause, left)
        return cls(tuple(sorted(steps, key=lambda step: step[1] == "idle")), pause)


class Watch:
    """The memory of one watcher: when sessions were last used, and when to try failed steps again."""

    def __init__(self) -> None:
        self.used: dict[str, float] = {}
        """By session, when it was last used, as of the last look at it."""
        self._again: dict[str, tuple[float, float]] = {}
        """By session, when to try again, and the seconds waited before that; by the monotonic clock."""

    def ready(self, session_id: str, moment: float) -> float:
        """Return the seconds until a session can be tried again; 0 if now."""
        return max(0.0, self._again.get(session_id, (0.0, 0.0))[0] - moment)

    def failed(self, session_id: str, error: HoldfastError, moment: float) -> None:
        """Note that a step has failed."""
        waited = self._again.get(session_id, (0.0, 0.0))[1]
        wait = BUSY_SECONDS if isinstance(error, SessionBusy) else min(LONGEST_SECONDS, 2 * waited + 1)
        self._again[session_id] = (moment + wait, wait)

    def succeeded(self, session_id: str) -> None:
        """Note that a step has succeeded."""
        self._again.pop(session_id, None)

    def keep(self, sessions: Iterable[str]) -> None:
        """Forget all sessions but these."""
        known = set(sessions)
        self.used = {each: at for each, at in self.used.items() if each in known}
        self._again = {each: at for each, at in self._again.items() if each in known}


def look(context: Context, watch: Watch) -> list[tuple[str, Done]]:
    """Do all due steps, one after the other; return the names of the sessions that do not run now.

    A failure in one session is reported, and does not stop the others.
    """
    rows = context.store.sessions()
    watch.keep(row.id for row in rows)
    names = {row.id: row.name for row in rows}
    found: list[tuple[str, Done]] = []
    for session_id, step in DueSteps.of(rows, watch.used, time.time()).steps:
        if watch.ready(session_id, time.monotonic()):
            continue
        try:
            done = carry_out(context, watch, session_id, step)
            watch.succeeded(session_id)
        except HoldfastError as error:
            watch.failed(session_id, error, time.monotonic())
            context.progress(f"session {names[session_id]}: {error}")
            continue
        if done:
            found.append((names[session_id], done))
    return found


def carry_out(context: Context, watch: Watch, session_id: str, step: Step) -> Done:
    """Carry out a due step in one session, if it is still due; return the session's fate.

    Raises:
        HoldfastError: it continues, and is to be tried again.
    """
    context = replace(context, actor=ACTOR, reason=None)
    try:
        if step == "warn":
            return _announce(context, session_id)
        return _end(context, session_id) if step == "end" else _sleep(context, watch, session_id)
    except SessionNotFound:
        return ""
    except HoldfastError as error:
        _report(context, session_id, error)
        raise


def remove(context: Context, row: SessionRow) -> None:
    """Remove a session, and its unrequested captures. From now on, clients do not find it.

    Raises:
        SessionBusy: it is being captured; it is removed afterwards.
        SessionNotFound: it was removed already.
    """
    lifetime.change(context.store, row.id, lambda kept: replace(kept, ended=True))
    teardown.remove(context, row.id)
    forget_captures(context, row)


def put_to_sleep(context: Context, row: SessionRow, why: str, *, memory: bool = True) -> None:
    """Suspend a running session because of its lifetime.

    Raises:
        LiveUnsupported, CaptureFailed, SessionBusy, SessionDead, SessionError: it continues, or does not run.
    """

    def still() -> None:
        idle = Lifetime.of(context.store.session(row.id).details).idle
        if why == "idle" and (idle is None or _unused_for(context, row) < idle):
            raise SessionBusy(f"cannot put session {row.name} to sleep: it is in use again")

    kind: SnapshotKind = "live" if memory else "filesystem"
    snapshot_service.suspend(context, row, kind=kind, asleep=why, still=still)
    forget_captures(context, row)


def note_use(context: Context, row: SessionRow, now: float) -> None:
    """Note a use of a session that its journal does not record, such as a request to one of its ports."""
    found = Lifetime.of(row.details)
    if found.idle is not None and now - found.used_at >= USE_SECONDS:
        lifetime.change(context.store, row.id, lambda kept: replace(kept, used_at=max(now, kept.used_at)))


def forget_captures(context: Context, row: SessionRow) -> None:
    """Remove the captures of earlier sleeps, and captures that clients of the E2B wire did not ask for."""
    needed = {each.parent_snapshot_id for each in context.store.sessions()}
    of_its_parent = context.store.find_snapshot(row.parent_snapshot_id)
    for taken in [*context.store.snapshots(row.id), *([of_its_parent] if of_its_parent else ())]:
        if not _asked_for(taken, sandbox="sandbox" in row.details) and taken.id not in needed:
            with suppress(SnapshotInUse, SnapshotNotFound):
                snapshot_storage.remove_snapshots(context, [taken])


def _asked_for(taken: SnapshotRow, *, sandbox: bool) -> bool:
    if taken.label or taken.reason or taken.pinned:
        return True
    auto = taken.details.auto
    if auto is not None:
        return auto.get("trigger") != "sleep"
    return not (sandbox and str(taken.details.get("actor", "")).endswith(":e2b"))


def _announce(context: Context, session_id: str) -> Done:
    now = time.time()
    before: list[Lifetime] = []

    def noted(kept: Lifetime) -> Lifetime:
        before[:] = [kept]
        return replace(kept, warned_of=kept.ends_at)

    row = context.store.session(session_id)
    if not Lifetime.of(row.details).warns(row.state, now):
        return ""
    lifetime.change(context.store, session_id, noted)
    if before and before[0].warns(row.state, now):  # no other watcher has announced it
        left = round(before[0].left(now) or 0.0)
        host_events.note(context, session_id, "life_ending", seconds=left, then=before[0].then)
    return ""


def _end(context: Context, session_id: str) -> Done:
    def claimed(kept: Lifetime) -> Lifetime:
        over = kept.then == "remove" and kept.due(state, time.time())
        return replace(kept, ended=True) if over else kept

    state = context.store.session(session_id).state
    # From this instant on no request can extend its life.
    found = lifetime.change(context.store, session_id, claimed)
    row = context.store.session(session_id)
    if not found.due(row.state, time.time()):
        return ""
    if found.ended:
        host_events.note(context, session_id, "life_ended", then="remove")
        remove(context, row)
        return "removed"
    put_to_sleep(context, row, "life", memory=found.keeps_memory)
    return "suspended"


def _sleep(context: Context, watch: Watch, session_id: str) -> Done:
    row, now = context.store.session(session_id), time.time()
    idle = Lifetime.of(row.details).idle_from(row.state)
    if idle is None:
        return ""
    unused = _unused_for(context, row)
    if unused < idle:
        watch.used[session_id] = now - unused
        return ""
    put_to_sleep(context, row, "idle")
    return "suspended"


def _unused_for(context: Context, row: SessionRow) -> float:
    """Return the seconds since a running session was last used; 0 if it is in use."""
    used = time_unused.last_use(SessionChannel(context, lambda: row))
    return 0.0 if used is None else max(0.0, time.time() - used)


def _report(context: Context, session_id: str, error: HoldfastError) -> None:
    """Record in the journal that a session could not be ended or put to sleep, unless the last attempt also
    failed."""
    if isinstance(error, SessionBusy):
        return
    with suppress(HoldfastError):
        row = context.store.session(session_id)
        if Lifetime.of(row.details).trouble != error.code:
            lifetime.change(context.store, session_id, lambda kept: replace(kept, trouble=error.code))
            host_events.note(context, session_id, "sleep_failed", why=str(error), code=error.code)
