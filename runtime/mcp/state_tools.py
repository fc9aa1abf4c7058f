"""Tools for the present state and for going back: screen, status, snapshot, go_back, changes, sessions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.base.text import plain, seconds, size
from holdfast.errors import SessionError
from holdfast.runtime.guest.layout import FIRST_PROCESS, GUEST_TREE
from holdfast.runtime.mcp import outcomes
from holdfast.runtime.mcp.agent_sessions import AgentSession, AgentSessions
from holdfast.runtime.mcp.agent_tools import AgentTools, LastLine, said
from holdfast.runtime.mcp.outcomes import shorten

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.store.rows import SnapshotRow

MOST_LINES = 15
"""The parts of a session's state."""
MOST_PROCESSES = 8
MOST_EVENTS = 5
MOST_SNAPSHOTS = 5
MOST_SESSIONS = 30
MOST_COPIES = 20
_WIDTH = 140
OURS = (f"{GUEST_TREE.parent}/", FIRST_PROCESS)


class StateTools(AgentTools):
    """The tools of a session's state and history."""

    async def screen(self, context: Context[Any, Any], session: str = "") -> str:
        """Show the terminal."""

        def work(found: AgentSession, _: LastLine) -> str:
            screen, shell = found.session.terminal.screen(), found.session.shell()
            row, column = screen.cursor
            state = shell.observed
            facts = [f"cursor at line {row + 1}, column {column + 1}"]
            if state is not None:
                facts.insert(0, outcomes.waits(state) if state.state == "waiting" else outcomes.doing(state))
            return said(found, screen.text.rstrip(), *facts)

        return await self.call(context, session, work)

    async def status(self, context: Context[Any, Any], session: str = "") -> str:
        """Show the present state."""

        def work(_: LastLine) -> str:
            agents = self.agents(context)
            found = agents.known(session)
            if found is None:
                return (
                    f"[session {agents.default.name} does not exist yet; the first `run` or `cell` makes it]"
                )
            return outcomes.joined(
                [*found.take_news(), *_state(found), *_events(found), *_snapshots(agents, found)]
            )

        # Apart from the calls that may wait there for an hour, of which it tells.
        name = session or self.agents(context).default.name
        return await self.plainly(context, work, session=f"status of {name}")

    async def snapshot(
        self, context: Context[Any, Any], label: str = "", reason: str = "", session: str = ""
    ) -> str:
        """Take a snapshot."""

        def work(found: AgentSession, _: LastLine) -> str:
            taken = found.session.snapshot(label or None, reason=reason or None)
            back = f"go_back(to={taken.name!r}) returns to it"
            return said(found, "", f"snapshot {taken.name}", size(taken.size), back)

        return await self.call(context, session, work)

    async def go_back(
        self, context: Context[Any, Any], to: str = "@-1", copies: int = 0, session: str = ""
    ) -> str:
        """Rewind, or make copies."""
        if not 0 <= copies <= MOST_COPIES:
            raise ToolError(f"cannot make {copies} copies: give 0 to {MOST_COPIES}")

        def work(_: LastLine) -> str:
            agents = self.agents(context)
            found = agents.known(session)
            if found is None:
                raise ToolError("cannot go back: the session does not exist yet")
            if copies:
                made = _meant(agents, found, to).fork(copies)
                names = [agents.keep(each).session.name for each in made]
                return outcomes.facts([f"made {', '.join(names)}", "name one as `session` to work in it"])
            gone = found.session.rewind(to)
            agents.keep(gone.session).seen = 0
            kept = f"the previous state is kept as snapshot {gone.kept.name}" if gone.kept else ""
            back = f"back at {gone.snapshot.name}: {gone.left_behind} commands, cells and inputs are undone"
            lines = [*gone.deviations, outcomes.facts([back, kept])]
            return outcomes.joined(lines)

        name = session or self.agents(context).default.name
        return await self.plainly(context, work, session=name)

    async def changes(self, context: Context[Any, Any], since: str = "", session: str = "") -> str:
        """Show the changes."""

        def work(found: AgentSession, _: LastLine) -> str:
            text = shorten(found.session.drift(since or None).text()).text
            return said(found, text)

        return await self.call(context, session, work)

    async def sessions(self, context: Context[Any, Any], new: str = "", end: str = "") -> str:
        """List, make or end sessions."""

        def work(_: LastLine) -> str:
            agents = self.agents(context)
            if new and end:
                raise ToolError("cannot make and end a session in one call: give one of them")
            if new:
                made = agents.holdfast.new(new, **agents.default.options)
                return outcomes.facts([f"session {agents.keep(made).session.name} was made"])
            if end:
                gone = agents.holdfast.session(end)
                gone.remove()
                return outcomes.facts([f"session {gone.name} was ended and removed; its snapshots are kept"])
            return outcomes.joined(_listed(agents.holdfast.sessions(), agents.default.name))

        return await self.plainly(context, work)


def _state(found: AgentSession) -> Iterable[str]:
    from holdfast.runtime.pulse import pulse_text

    session = found.session
    try:
        pulse = session.pulse()
    except SessionError as error:
        if session.refresh().state == "running":
            raise
        return [f"{session.name} is {session.state}: {plain(str(error), 200)}"]
    cell = found.kernel().cell_id
    runs = [f'cell {plain(cell, 40)} has the kernel; answer(key="C-c", id=…) interrupts it'] if cell else []
    lines = [line for line in pulse_text.whole(pulse, width=_WIDTH, most=MOST_PROCESSES) if _matters(line)]
    over = len(lines) - MOST_LINES
    return [
        *runs,
        *lines[:MOST_LINES],
        *([f"… {over} more lines: `run` with ps, ss or lsof …"] if over > 0 else []),
    ]


def _matters(line: str) -> bool:
    """Check whether a line is of interest: not empty, and not about our own processes."""
    return bool(line.strip()) and not any(place in line for place in OURS)


def _events(found: AgentSession) -> Iterable[str]:
    """Return the events since the last time."""
    try:
        last = deque(found.session.events(after=found.seen), maxlen=MOST_EVENTS + 1)
    except SessionError:
        return []
    if last:
        found.seen = max(found.seen, last[-1].seq)
    shown = [f"  {event.at.astimezone(UTC):%H:%M:%S} {event.text}" for event in list(last)[-MOST_EVENTS:]]
    more = ["  …"] if len(last) > MOST_EVENTS else []
    return ["since the last status:", *more, *shown] if shown else []


def _snapshots(agents: AgentSessions, found: AgentSession) -> Iterable[str]:
    line = _past(agents, found)[:MOST_SNAPSHOTS]
    if not line:
        return ["no snapshots yet"]
    now = datetime.now(UTC)
    each = [f"{row.name} ({seconds(max(0.0, (now - row.created_at).total_seconds()))} ago)" for row in line]
    return [f"snapshots it can go back to, the last first: {', '.join(each)}"]


def _meant(agents: AgentSessions, found: AgentSession, to: str) -> Snapshot:
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.history.lineage import family

    row = family.relative(to, found.session.row, agents.holdfast.store.snapshots())
    return agents.holdfast.snapshot(to) if row is None else Snapshot(agents.holdfast.context, row)


def _past(agents: AgentSessions, found: AgentSession) -> Sequence[SnapshotRow]:
    """Return the snapshots that a session can go back to, the last first."""
    from holdfast.runtime.history.lineage import family

    return family.line(found.session.row, agents.holdfast.store.snapshots())


def _listed(sessions: Sequence[Session], default: str) -> Iterable[str]:
    for session in sessions[-MOST_SESSIONS:]:
        mark = " (the default)" if session.name == default else ""
        yield f"{session.name} · {session.state}{mark}"
    if len(sessions) > MOST_SESSIONS:
        yield f"… {len(sessions) - MOST_SESSIONS} older ones …"
    if all(session.name != default for session in sessions):
        yield f"[the default session, {default}, does not exist yet; the first `run` or `cell` makes it]"
