"""The lives of sandboxes: the facts that are kept of each, its end, and the task that ends it.

A client gives the facts when it makes a sandbox; they are kept with the session, the end among them, so a
restarted server ends the sandboxes of the previous one. Sessions that no client of this wire made have none:
no end either, even after a client connects to them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.base.text import plain
from holdfast.errors import (
    HoldfastError,
    SessionBusy,
    SessionError,
    SessionNotFound,
    SnapshotInUse,
    SnapshotNotFound,
)
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.store.rows import SessionRow
from holdfast.runtime.store.store import Store

DETAIL = "sandbox"
"""Its key among the details of a session."""
ACCOUNT = "user"
"""The account as which requests act that name no other."""
WOKEN_SECONDS = 300.0
"""The shortest timeout of a sandbox that a request has resumed."""
MAKING_SECONDS = 600.0
"""How much later a sandbox ends whose server ended before it was handed over: nothing else ends it."""


class SandboxFacts(BaseModel):
    """What is kept.

    `public_ports`: its ports are open to those without its token. `request_host` is the name under which its
    servers see requests, with `${PORT}` for the port; None for the one that the client has used.

    `keeps_memory`: its processes continue after a pause at its end. `files_only`: its last pause ended
    them.

    `javascript`: a context of this language is there from the start.

    `home` is that of the account `user`, as whom requests act; None if the session has its own user only.

    `env` is for every process. `ends_at` is in seconds since 1970, None for no end; `seconds` is its timeout,
    which it gets again when a request resumes it. `ended` is set once it is being removed. `key` and
    `asked` are digests of the key and the body of the request that made it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    template: str = "base"
    metadata: dict[str, str] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    ends_at: float | None = None
    at_end: Literal["kill", "pause"] = "kill"
    keeps_memory: bool = True
    files_only: bool = False
    auto_resume: bool = False
    seconds: float = 300.0
    ended: bool = False
    public_ports: bool = False
    request_host: str | None = None
    javascript: bool = False
    home: str | None = None
    key: str | None = None
    asked: str | None = None

    @classmethod
    def of(cls, row: SessionRow) -> SandboxFacts | None:
        """Return the facts of a session; None if no client of this wire made it."""
        return cls.kept(row.details.get(DETAIL))

    @classmethod
    def kept(cls, detail: Any) -> SandboxFacts | None:
        """Return the facts of a detail; None if it has none."""
        try:
            return cls.model_validate(detail)
        except ValidationError:
            return None

    def due(self, now: float) -> bool:
        """Return whether its time is over."""
        return self.ended or (self.ends_at is not None and self.ends_at <= now)

    def given(self, seconds: float, now: float, *, longer: bool = False) -> SandboxFacts:
        """Return these facts with an end `seconds` from `now`; with `longer`, not before the present end."""
        end = now + seconds
        if longer and self.ends_at is not None:
            end = max(end, self.ends_at)
        return self.model_copy(update={"ends_at": end, "seconds": seconds})

    def left(self, now: float) -> float | None:
        """Return the seconds until its end; None if it has none."""
        return None if self.ends_at is None else max(0.0, self.ends_at - now)

    def being_made(self, now: float) -> SandboxFacts:
        """Return these facts for a sandbox that is being made: its life begins when it is handed over."""
        return self.model_copy(update={"ends_at": now + self.seconds + MAKING_SECONDS})

    def woken(self, now: float) -> SandboxFacts:
        """Return these facts for a sandbox that a request has resumed."""
        return self.model_copy(update={"ends_at": now + max(self.seconds, WOKEN_SECONDS)})

    def paused(self, *, memory: bool = True) -> SandboxFacts:
        """Return these facts for a sandbox that is paused, with its memory or without: its clock stops."""
        return self.model_copy(update={"ends_at": None, "files_only": not memory})


def change_facts(
    store: Store, session_id: str, how: Callable[[SandboxFacts], SandboxFacts]
) -> SandboxFacts | None:
    """Change the facts of a session in one step and return them; None if it has none, and never gets any."""
    found: list[SandboxFacts] = []
    row = store.find_session(session_id)
    if row is None or SandboxFacts.of(row) is None:
        return None

    def changed(detail: Any) -> Any:
        facts = SandboxFacts.kept(detail)
        if facts is None:
            return detail
        found[:] = [how(facts)]
        return found[0].model_dump(mode="json")

    store.change_detail(session_id, DETAIL, changed)
    return found[0] if found else None


def kill_sandbox(hf: Holdfast, row: SessionRow) -> None:
    """Remove a session. Snapshots that were asked for stay.

    For clients it is gone at once: one whose answer is cut by this asks whether it still runs.

    Raises:
        SessionBusy: it is being captured; it is removed afterwards.
        SessionNotFound: it is gone.
    """
    change_facts(hf.store, row.id, lambda facts: facts.model_copy(update={"ended": True}))
    hf.remove_session(row.id)
    _sweep(hf, row)


def pause_sandbox(hf: Holdfast, row: SessionRow, *, memory: bool = True) -> None:
    """Suspend a session; its clock stops. Without `memory` its processes end, and it begins with new ones.

    Raises:
        LiveUnsupported, CaptureFailed, SessionBusy, SessionDead, SessionError: it continues, or does not run.
    """
    if memory:
        Session(hf.context, row).suspend()
    else:
        snapshot_service.suspend(hf.context, row, kind="filesystem")
    change_facts(hf.store, row.id, lambda facts: facts.paused(memory=memory))
    _sweep(hf, row)


def resume_sandbox(hf: Holdfast, row: SessionRow) -> SessionRow:
    """Resume a suspended session, unless another caller has just done it.

    Raises:
        RestoreFailed, SessionBusy, SessionError: it stays suspended.
    """
    try:
        return Session(hf.context, row).resume().row
    except SessionError:
        now = hf.store.session(row.id)
        if now.state != "running":
            raise
        return now


def _sweep(hf: Holdfast, row: SessionRow) -> None:
    """Remove the captures of earlier pauses and of forks: clients do not know them, and cannot."""
    if SandboxFacts.of(row) is None:
        return
    needed = {each.parent_snapshot_id for each in hf.store.sessions()}
    of_its_parent = hf.store.find_snapshot(row.parent_snapshot_id)
    for taken in [*hf.store.snapshots(row.id), *([of_its_parent] if of_its_parent else ())]:
        own = str(taken.details.get("actor", "")).endswith(":e2b") and taken.details.auto is None
        if own and not (taken.label or taken.reason or taken.pinned or taken.id in needed):
            with suppress(SnapshotInUse, SnapshotNotFound):
                hf.remove_snapshot(taken.id)


ACTOR = "system:e2b"
LOOK_SECONDS = 10.0
"""The longest time until a change by another process is noticed."""
AT_ONCE = 4
BUSY_SECONDS, LONGEST_SECONDS = 1.0, 300.0
GRACE_SECONDS = 30.0
logger = logging.getLogger("holdfast.serve")


def due(rows: Iterable[SessionRow], now: float) -> list[str]:
    """Return the sandboxes whose time is over.  Pure."""
    found = []
    for row in rows:
        facts = SandboxFacts.of(row)
        if facts is None or not facts.due(now):
            continue
        kills = ("running", "dead") if facts.at_end == "kill" else ("running",)
        if row.state in (*kills, "suspended") if facts.ended else row.state in kills:
            found.append(row.id)
    return found


def stopped_clocks(rows: Iterable[SessionRow]) -> list[str]:
    """Return sandboxes that were suspended by other means, whose clocks stop as well.  Pure."""
    found = ((row, SandboxFacts.of(row)) for row in rows if row.state == "suspended")
    return [row.id for row, facts in found if facts and facts.ends_at is not None and not facts.ended]


def pause_before(rows: Iterable[SessionRow], now: float) -> float:
    """Return the seconds until the next end, or until the next look at the store.  Pure."""
    ends = [facts.ends_at for row in rows if (facts := SandboxFacts.of(row)) and row.state == "running"]
    return min([LOOK_SECONDS, *(end - now for end in ends if end is not None and end > now)])


class SandboxLives:
    """The task that ends sandboxes."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._changed = asyncio.Event()
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, tuple[float, float]] = {}
        """By sandbox: when to try again, by the monotonic clock, and the seconds waited before that."""

    def look(self) -> None:
        """Read the ends again now; call it on the loop."""
        self._changed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End sandboxes while the block runs."""
        task = asyncio.create_task(self._live())
        try:
            yield
        finally:
            task.cancel()
            if self._ending:
                await asyncio.wait(self._ending.values(), timeout=GRACE_SECONDS)

    async def _live(self) -> None:
        while True:
            self._changed.clear()
            pause = LOOK_SECONDS
            try:
                pause = await self._round()
            except HoldfastError as error:
                logger.error("cannot look for the ends of sandboxes: %s", plain(str(error), 400))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)

    async def _round(self) -> float:
        now, rows = time.time(), await self._callers.brief.run(self._rows)
        over = due(rows, now)
        self._failed = {each: found for each, found in self._failed.items() if each in over}
        pause = pause_before(rows, now)
        for each in over:
            again = self._failed.get(each, (0.0, 0.0))[0] - time.monotonic()
            if each in self._ending:
                continue
            if again > 0:
                pause = min(pause, again)
            elif len(self._ending) < AT_ONCE:
                self._ending[each] = asyncio.create_task(self._end(each))
        return max(pause, 0.01)

    async def _end(self, session_id: str) -> None:
        try:
            await self._callers.brief.run(lambda: self._ended(session_id))
            self._failed.pop(session_id, None)
        except SessionNotFound:
            pass
        except HoldfastError as error:
            waited = self._failed.get(session_id, (0.0, 0.0))[1]
            wait = BUSY_SECONDS if isinstance(error, SessionBusy) else min(LONGEST_SECONDS, 2 * waited + 1)
            self._failed[session_id] = (time.monotonic() + wait, wait)
            logger.error("cannot end sandbox %s yet: %s", session_id, plain(str(error), 400))
        finally:
            del self._ending[session_id]
            self.look()

    def _rows(self) -> list[SessionRow]:
        store = self._callers.controller(ACTOR).store
        rows = store.sessions()
        for each in stopped_clocks(rows):
            change_facts(store, each, lambda facts: facts.paused())
        return rows

    def _ended(self, session_id: str) -> None:
        hf = self._callers.controller(ACTOR)

        def claimed(facts: SandboxFacts) -> SandboxFacts:
            over = facts.at_end == "kill" and facts.due(time.time())
            return facts.model_copy(update={"ended": True}) if over else facts

        # From this instant on no request can extend its life: for clients it is gone.
        facts = change_facts(hf.store, session_id, claimed)
        row = hf.store.find_session(session_id)
        if row is None or facts is None or not facts.due(time.time()):
            return
        if facts.ended:
            kill_sandbox(hf, row)
        elif row.state == "running":
            pause_sandbox(hf, row, memory=facts.keeps_memory)
