"""The sessions that an agent works in: which one a call means, and what the server remembers of it.

A session is made when it is first used, and outlives the server; nothing that is remembered here is needed
to continue with another server.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import CommandNotFound, HoldfastError, SessionNotFound
from holdfast.runtime.mcp import agent_identity

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.results import CellResult

MOST_CELLS = 20
"""Cells of a session that are remembered after the call that ran them."""


@dataclass(frozen=True)
class Default:
    """The session for calls that name none; `options` are those of `Holdfast.new`, if it has to be made.

    `folder` is whose session it is; None if it was named.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def of_folder(cls, folder: Path, options: Mapping[str, Any]) -> Default:
        """Return the session for agents that work in a folder; links in its path do not make it another."""
        folder = folder.resolve()
        return cls(agent_identity.name_for(folder), options, folder)


class RunningCell:
    """A cell that runs in a thread of its own, beyond the call that began it."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.done: Future[CellResult] = Future()

    def run(self, work: Callable[[], CellResult]) -> None:
        """Do the work in a thread of its own; the process does not wait for it at its end."""

        def body() -> None:
            try:
                self.done.set_result(work())
            except HoldfastError as error:
                self.done.set_exception(error)

        self.done = Future()
        threading.Thread(target=body, name=f"cell {self.id}", daemon=True).start()

    @property
    def waiting(self) -> CellResult | None:
        """The result that says what the cell asks for; None if it asks nothing."""
        if not self.done.done() or self.done.exception() is not None:
            return None
        return self.done.result() if self.done.result().status == "waiting" else None


class AgentSession:
    """One session, and what its agent has seen of it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.news: list[str] = []
        """What the agent should know before anything else; each line once."""
        self.seen = 0
        """The `seq` of the last event that was reported."""
        self.offsets: OrderedDict[str, int] = OrderedDict()
        """How far the output of a command has been shown."""
        self._cells: OrderedDict[str, RunningCell] = OrderedDict()
        self._lock = threading.Lock()
        self._count = 0

    def take_news(self) -> list[str]:
        """Return what is new, once."""
        found, self.news = self.news, []
        return found

    def shown(self, command_id: str, offset: int) -> None:
        """Remember how far the output of a command was shown."""
        self.offsets[command_id] = offset
        while len(self.offsets) > MOST_CELLS:
            self.offsets.popitem(last=False)

    def new_cell(self) -> RunningCell:
        """Return a cell with an id of its own, which is found again by that."""
        with self._lock:
            self._count += 1
            cell = RunningCell(f"cell-{self._count}")
            self._cells[cell.id] = cell
            while len(self._cells) > MOST_CELLS:
                self._cells.popitem(last=False)
        return cell

    def cell(self, id_: str) -> RunningCell | None:
        """Return the cell with this id; None if it is not the id of a cell.

        Raises:
            CommandNotFound: it is one that is no longer known.
        """
        found = self._cells.get(id_)
        if found is None and id_.startswith("cell-"):
            raise CommandNotFound(
                f"cannot find {id_}: only the last {MOST_CELLS} cells of this server are kept"
            )
        return found

    def asking(self) -> RunningCell | None:
        """Return the cell that waits for input, if one does."""
        return next((cell for cell in reversed(self._cells.values()) if cell.waiting), None)

    def computing(self) -> RunningCell | None:
        """Return the cell that runs, if one does."""
        return next((cell for cell in reversed(self._cells.values()) if not cell.done.done()), None)


class AgentSessions:
    """All sessions that one agent uses."""

    def __init__(self, holdfast: Holdfast, default: Default) -> None:
        self.holdfast = holdfast
        self.default = default
        self._known: dict[str, AgentSession] = {}
        self._checked: set[str] = set()
        """Sessions that were the default one as it was asked for; people may change them later."""
        self._lock = threading.Lock()

    def of(self, name: str) -> AgentSession:
        """Return the session of that name or id, running; the default one for no name, made if need be.

        Raises:
            SessionNotFound: no session has that name or id.
            SessionExists: the default one is of another folder, or has other options.
            HoldfastError: it cannot be made, or resumed.
        """
        with self._lock:
            found = self.known(name)
            if found is None:
                found = self._made()
            if found.session.state == "suspended":
                found.session.resume()
                found.news.append(f"session {found.session.name} was suspended, and has been resumed")
            return found

    def known(self, name: str) -> AgentSession | None:
        """Return the session as it is, without making or resuming it; None if the default one does not exist.

        Raises:
            SessionNotFound: no session has that name or id.
            SessionExists: the default one is of another folder, or has other options.
        """
        if name and name != self.default.name:
            return self.keep(self.holdfast.session(name))
        session = self._default()
        if session is None:
            return None
        if session.id not in self._checked:
            row = self.holdfast.store.session(session.id)
            agent_identity.check(row, self.default.folder, self.default.options)
            self._checked.add(session.id)
        return self.keep(session)

    def _default(self) -> Session | None:
        """Return the default session; one that an earlier version made for certain for this folder counts."""
        folder = self.default.folder
        with suppress(SessionNotFound):
            return self.holdfast.session(self.default.name)
        if folder is None:
            return None
        name = agent_identity.earlier_name(folder)
        row = next((row for row in self.holdfast.store.sessions() if row.name == name), None)
        if row is None or not agent_identity.is_of_folder(row, folder):
            return None
        agent_identity.check(row, folder, self.default.options)
        if row.details.agent is None:
            self._keep_record(row.id)
        return self.holdfast.session(row.id)

    def _made(self) -> AgentSession:
        found = self.keep(self.holdfast.new(self.default.name, **self.default.options))
        self._keep_record(found.session.id)
        self._checked.add(found.session.id)
        found.news.append(f"session {found.session.name} was made")
        if (folder := self.default.folder) is not None:
            earlier = agent_identity.earlier_name(folder)
            if any(row.name == earlier for row in self.holdfast.store.sessions()):
                found.news.append(
                    f"session {earlier} is not used: it may be of another folder of the same name; "
                    f"`holdfast mcp --session {earlier}` uses it"
                )
        return found

    def _keep_record(self, session_id: str) -> None:
        kept = agent_identity.record(self.default.folder, self.default.options)
        self.holdfast.store.keep_details(session_id, agent=kept)

    def keep(self, session: Session) -> AgentSession:
        """Return what is remembered of a session, with this handle on it."""
        found = self._known.setdefault(session.id, AgentSession(session))
        found.session = session
        return found
