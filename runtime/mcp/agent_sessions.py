"""The sessions that an agent works in: which one a call means, and what the server remembers of it.

A session is made when it is first used, and outlives the server; nothing that is remembered here is needed
to continue with another server.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.errors import CommandNotFound, JobNotFound, SessionNotFound
from holdfast.runtime.mcp import agent_identity

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.kernel_report import KernelInfo

    Kind = Literal["cell", "job", "command"]

MOST_SEEN = 50
"""Commands and cells of a session of which it is remembered how much was shown."""
KNOWN_SECONDS = 10.0
"""For the kernel to say whether it knows a cell."""
BEHIND_ALL = 2**40
"""The number of an event that no cell has."""


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


@dataclass(frozen=True)
class ShownOutput:
    """How far the output of a command was shown: an offset, and the lines before it, if they are known."""

    offset: int
    lines: int | None


class AgentSession:
    """One session, and what its agent has seen of it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.news: list[str] = []
        """What the agent should know before anything else; each line once."""
        self.seen = 0
        """The `seq` of the last event that was reported."""
        self._commands: OrderedDict[str, ShownOutput] = OrderedDict()
        self._cells: OrderedDict[str, int] = OrderedDict()

    def take_news(self) -> list[str]:
        """Return what is new, once."""
        found, self.news = self.news, []
        return found

    def command_shown(self, id_: str, offset: int, lines: int | None) -> None:
        """Remember how far the output of a command was shown."""
        _remember(self._commands, id_, ShownOutput(offset, lines))

    def shown_of(self, id_: str) -> ShownOutput | None:
        """Return how far the output of a command was shown; None if nothing of it was."""
        return self._commands.get(id_)

    def cell_shown(self, id_: str, seq: int) -> None:
        """Remember the last event of a cell that was shown."""
        _remember(self._cells, id_, max(seq, self.seq_of(id_)))

    def seq_of(self, id_: str) -> int:
        """Return the last event of a cell that was shown; 0 for none."""
        return self._cells.get(id_, 0)

    def kind(self, id_: str) -> Kind:
        """Return what has an id, as the session knows it, of any client."""
        if id_ in self._cells:
            return "cell"
        with suppress(JobNotFound):
            self.session.job(id_)
            return "job"
        if id_ in self._commands:
            return "command"
        if self.kernel().cell_id == id_:
            return "cell"
        with suppress(CommandNotFound):  # one that has ended answers at once
            self.session.kernel.join(id_, after=BEHIND_ALL, patience=KNOWN_SECONDS)
            return "cell"
        return "command"

    def kernel(self) -> KernelInfo:
        """Return the session's main kernel as it is now."""
        return self.session.kernels.list()[0]

    def cell_in_front(self, *, asks: bool = False) -> str | None:
        """Return the cell that is meant where no id is given: what runs in the shell comes first.

        A cell that this client was shown comes before that. `asks`: only one that waits for input.
        """
        kernel = self.kernel()
        cell = kernel.cell_id
        if cell is None or (asks and (kernel.observed is None or kernel.observed.state != "waiting")):
            return None
        return cell if cell in self._cells or self.session.shell().command_id is None else None


def _remember(kept: OrderedDict[str, Any], id_: str, value: Any) -> None:
    kept[id_] = value
    kept.move_to_end(id_)
    while len(kept) > MOST_SEEN:
        kept.popitem(last=False)


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
