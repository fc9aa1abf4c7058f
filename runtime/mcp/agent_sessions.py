"""The sessions that an agent works in: the session of a call, and the part of it the agent has seen.

A session is made when it is first used, and outlives the server; nothing that is remembered here is needed
to continue with another server. The default one is known by the whole path of its folder, and by the
options it was made with. One that is found with another folder or other options is refused: an agent would
work in a project that is not its own, or with more rights than it was given.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.base.text import plain
from holdfast.errors import CommandNotFound, JobNotFound, SessionExists, SessionNotFound
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.rows import SessionRow

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.kernel_report import KernelInfo

_DIGEST = 8
_LONGEST = 40
_BESIDES = ("template", "warm", "devcontainer", "entrypoint")
"""Options of `Holdfast.new` that `SessionOptions` does not have."""
_HOW_IT_STARTS = ("warm", "entrypoint")
"""Those that make no difference to a session that is there."""
_AT_LEAST = ("allow", "deny", "domains", "writable")
"""Lists that a template or an image adds to."""


def words_of(folder: Path) -> str:
    """Return the last part of a folder's path as far as it can be part of a name; empty if it cannot."""
    return re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")


def name_for(folder: Path) -> str:
    """Return the name of the session for a folder: its last part for people, and a digest of its path."""
    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
    begin = f"agent-{words_of(folder)}"[: _LONGEST - _DIGEST - 1].rstrip("-")
    return f"{begin}-{digest}"


def earlier_name(folder: Path) -> str:
    """Return its name in earlier versions, the same for all folders with the same last part."""
    words = words_of(folder)
    return f"agent-{words}"[:_LONGEST].rstrip("-") if words else "agent"


def is_of_folder(row: SessionRow, folder: Path) -> bool:
    """Return whether a session of an earlier version certainly belongs to this folder.

    Earlier sessions do not have a record of their folder, but a mounted one shows it.
    """
    kept = row.details.agent
    if kept is not None:
        return kept.get("folder") == str(folder)
    mounts = row.options.get("mounts")
    return isinstance(mounts, list) and any(
        isinstance(each, dict) and each.get("source") == str(folder) for each in mounts
    )


def record(folder: Path | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session row's facts about its agent: the folder, and digests of the requested options.

    Values stay out of it: variables can be secrets.
    """
    return {"folder": None if folder is None else str(folder), "asked": _digests(options)}


def check(row: SessionRow, folder: Path | None, options: Mapping[str, Any]) -> None:
    """Check that a found session is the requested one.

    Args:
        row: the session.
        folder: of the agent; None if the session was named, and may be of any.
        options: what was asked for, as for `Holdfast.new`.

    Raises:
        SessionExists: it is another folder's, or has other options; names which.
    """
    kept = row.details.agent or {}
    if folder is not None and kept.get("folder") not in (None, str(folder)):
        raise SessionExists(
            f"cannot use session {row.name} for {_path(folder)}: it belongs to {_path(kept['folder'])}",
            hint="`--session NAME` chooses a different name",
        )
    if differing := _differing(row, kept.get("asked"), options):
        raise SessionExists(
            f"cannot use session {row.name}: it was made with options that differ from those requested now "
            f"({', '.join(differing)})",
            hint=(
                "request the same options, choose a different session with --session, or run "
                f"`holdfast rm {row.name}` so that the next call makes a new one"
            ),
        )


def _differing(row: SessionRow, then: object, options: Mapping[str, Any]) -> list[str]:
    """Return the options that differ. Later changes count only if the option was requested."""
    asked = {key: value for key, value in options.items() if key not in _BESIDES}
    wanted = SessionOptions.parse(**asked).model_dump(mode="json")
    found = {key for key in asked if not _has(row, key, wanted[key])}
    if isinstance(then, dict):
        now = _digests(options)
        found |= {key for key in {*then, *now} if then.get(key) != now.get(key)}
    return sorted(plain(key, 60) for key in found)


def _has(row: SessionRow, key: str, wanted: Any) -> bool:
    """Return whether a session has the requested options."""
    has = row.options.get(key)
    if key == "image":
        return wanted in (has, row.image, row.image_name)
    if key == "env":
        return isinstance(has, dict) and wanted.items() <= has.items()
    if key in _AT_LEAST:
        return isinstance(has, list) and set(wanted) <= set(map(str, has))
    return bool(has == wanted)


def _digests(options: Mapping[str, Any]) -> dict[str, str]:
    asked = {key: value for key, value in options.items() if key not in _BESIDES}
    parsed = SessionOptions.parse(**asked).model_dump(mode="json")
    values = {key: parsed[key] for key in asked}
    values |= {key: options[key] for key in _BESIDES if key in options and key not in _HOW_IT_STARTS}
    return {
        key: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for key, value in values.items()
    }


def _path(folder: object) -> str:
    return plain(str(folder), 200)


Kind = Literal["cell", "job", "command"]
MOST_SEEN = 50
"""Commands and cells of a session of which it is remembered how much was shown."""
KNOWN_SECONDS = 10.0
"""For the kernel to say whether it knows a cell."""
BEHIND_ALL = 2**40
"""The number of an event that no cell has."""


@dataclass(frozen=True)
class Default:
    """The session for calls that name none; `options` are the options of `Holdfast.new`, if it has to be
    made.

    `folder` is whose session it is; None if it was named.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def of_folder(cls, folder: Path, options: Mapping[str, Any]) -> Default:
        """Return the session for agents that work in a folder, whatever links its path has."""
        folder = folder.resolve()
        return cls(name_for(folder), options, folder)


@dataclass(frozen=True)
class ShownOutput:
    """How far the output of a command was shown: an offset, and the lines before it, if they are known."""

    offset: int
    lines: int | None


class AgentSession:
    """One session, and the part of it that its agent has seen."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.news: list[str] = []
        """Notes that the agent should read first; each line once."""
        self.seen = 0
        """The `seq` of the last event that was reported."""
        self._commands: OrderedDict[str, ShownOutput] = OrderedDict()
        self._cells: OrderedDict[str, int] = OrderedDict()

    def take_news(self) -> list[str]:
        """Return the news, once."""
        found, self.news = self.news, []
        return found

    def command_shown(self, id_: str, offset: int, lines: int | None) -> None:
        """Remember how far the output of a command was shown."""
        _remember(self._commands, id_, ShownOutput(offset, lines))

    def shown_of(self, id_: str) -> ShownOutput | None:
        """Return how far the output of a command was shown; None if it was not shown."""
        return self._commands.get(id_)

    def cell_shown(self, id_: str, seq: int) -> None:
        """Remember the last event of a cell that was shown."""
        _remember(self._cells, id_, max(seq, self.seq_of(id_)))

    def seq_of(self, id_: str) -> int:
        """Return the last event of a cell that was shown; 0 for none."""
        return self._cells.get(id_, 0)

    def kind(self, id_: str) -> Kind:
        """Return the command, job or cell with an id, of any client."""
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
        """Return the session's main kernel in its present state."""
        return self.session.kernels.list()[0]

    def cell_in_front(self, *, asks: bool = False) -> str | None:
        """Return the cell meant by a call without an id: the shell's command comes first.

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
    """All sessions that one agent uses.

    Args:
        needs: checks that it has a scope; None for an agent that can do everything.
    """

    def __init__(
        self, holdfast: Holdfast, default: Default, needs: Callable[[str], None] | None = None
    ) -> None:
        self.holdfast = holdfast
        self._needs = needs or (lambda _: None)
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
                if not lifetime.asleep(found.session.row):
                    self._needs("sessions:change")
                found.session.resume()
                found.news.append(f"session {found.session.name} was suspended, and has been resumed")
            return found

    def known(self, name: str) -> AgentSession | None:
        """Return the session without making or resuming it; None if the default one does not exist.

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
            check(row, self.default.folder, self.default.options)
            self._checked.add(session.id)
        return self.keep(session)

    def _default(self) -> Session | None:
        """Return the default session; one that an earlier version certainly made for this folder counts."""
        folder = self.default.folder
        with suppress(SessionNotFound):
            return self.holdfast.session(self.default.name)
        if folder is None:
            return None
        name = earlier_name(folder)
        row = next((row for row in self.holdfast.store.sessions() if row.name == name), None)
        if row is None or not is_of_folder(row, folder):
            return None
        check(row, folder, self.default.options)
        if row.details.agent is None:
            self._keep_record(row.id)
        return self.holdfast.session(row.id)

    def _made(self) -> AgentSession:
        self._needs("sessions:create")
        found = self.keep(self.holdfast.new(self.default.name, **self.default.options))
        self._keep_record(found.session.id)
        self._checked.add(found.session.id)
        found.news.append(f"session {found.session.name} was made")
        if (folder := self.default.folder) is not None:
            earlier = earlier_name(folder)
            if any(row.name == earlier for row in self.holdfast.store.sessions()):
                found.news.append(
                    f"session {earlier} is not used: it possibly belongs to a different folder of the "
                    "same name; "
                    f"`holdfast mcp --session {earlier}` uses it"
                )
        return found

    def _keep_record(self, session_id: str) -> None:
        kept = record(self.default.folder, self.default.options)
        self.holdfast.store.keep_details(session_id, agent=kept)

    def keep(self, session: Session) -> AgentSession:
        """Return the memory of a session, with this handle on it."""
        found = self._known.setdefault(session.id, AgentSession(session))
        found.session = session
        return found
