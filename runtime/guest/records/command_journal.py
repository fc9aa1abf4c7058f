"""Records the commands of one shell: submitted ones, and those typed at its prompt.

It follows every step in the life of a shell and decides nothing about it. It writes entries in the journal,
the record of a command that has a key, and the command a process can belong to.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.identity.actor import PERSON, Who
from holdfast.runtime.guest.pulse.origins import Origins
from holdfast.runtime.guest.pulse.process_lineage import Origin, short
from holdfast.runtime.guest.records.journal import Journal
from holdfast.runtime.guest.records.keyed import Keyed
from holdfast.runtime.guest.shells.marks import Mark, MarkKind
from holdfast.runtime.guest.shells.shell_fsm import Exec, Phase

MAX_TEXT = 64 << 10
"""Bytes of a command's text in an entry; of a longer one its head and its digest are kept."""
HEAD = 4 << 10


@dataclass(slots=True)
class _Given:
    command: Exec
    text: bytes
    who: Who
    reported: bool = False
    accepted: float | None = None
    """When the shell accepted it, in Unix seconds."""


@dataclass(slots=True)
class _Typed:
    id: str
    actor: str
    began: float
    more: bool = False


class CommandJournal:
    """The commands of one shell, as they begin and end."""

    def __init__(self, shell: str, journal: Journal, keyed: Keyed, origins: Origins) -> None:
        self._shell = shell
        self._journal = journal
        self._keyed = keyed
        self._origins = origins
        self._origin = Origin("shell", shell)
        self._given: _Given | None = None
        self._typed: _Typed | None = None
        self.output_digest: Callable[[int, int], str | None] = lambda _start, _end: None
        """Returns the digest of the output between two offsets."""
        self.typist = str(PERSON)
        """The actor who typed last."""
        self.hidden = False
        """True if something hidden was typed since the last look: what it changed is secret."""

    @property
    def actor(self) -> str | None:
        """The actor of the command that runs, or comes next."""
        if self._given:
            return self._given.who.actor
        return self._typed.actor if self._typed else None

    def given(self, command: Exec, text: bytes, who: Who) -> None:
        """Note a command that waits for the shell."""
        self._given = _Given(command, text, who)

    @property
    def who(self) -> Who | None:
        """The caller of the submitted command that has not ended."""
        return self._given.who if self._given else None

    def adopt(self, command: Exec, text: bytes, who: Who) -> None:
        """Continue with a command that another supervisor was given."""
        self._given = _Given(command, text, who, reported=command.phase is Phase.RUNNING)
        self._own(command.id, text, who.actor)

    def offered(self) -> None:
        """Note that the shell can take the command from now on."""
        if given := self._given:
            self._own(given.command.id, given.text, given.who.actor)

    def look(self) -> None:
        """Check the progress of the submitted command."""
        given = self._given
        if given is None:
            return
        command, who = given.command, given.who
        if command.phase in (Phase.RUNNING, Phase.FINISHED) and not given.reported:
            given.reported = True
            self._journal.append(
                "command_started",
                id=command.id,
                shell=self._shell,
                actor=who.actor,
                reason=who.reason,
                request=who.request,
                key=who.key,
                offset=command.start_offset,
                not_before=given.accepted,
                **text_fields(given.text),
            )
        if command.over:
            self._given = None
            self._ended(command, who)

    def mark(self, mark: Mark, now: float, read: Callable[[int], bytes | None]) -> None:
        """Process a mark. `read` returns the line that was typed, by the number of its mark."""
        if mark.kind is MarkKind.ACCEPTED and mark.serial:
            if self._given and self._given.command.serial == mark.serial:
                self._given.accepted = mark.at
        elif mark.kind is MarkKind.ACCEPTED:
            self._typed = self._begun(mark, now, read(mark.number))
        elif mark.kind is MarkKind.MORE and self._typed:
            self._typed.more = True
        elif mark.kind is MarkKind.DONE and self._typed:
            self._over(mark.start, now, exit_code=mark.status)

    def shell_ended(self, offset: int, now: float, *, exit_code: int | None, signal: int | None) -> None:
        """Note that the shell has ended, along with its typed input."""
        if self._typed:
            self._over(offset, now, exit_code=exit_code, signal=signal, shell_exited=True)

    def _begun(self, mark: Mark, now: float, text: bytes | None) -> _Typed | None:
        if text is not None and not text.strip():
            return None  # only Enter
        typed = _Typed(f"t{secrets.token_hex(6)}", self.typist, now)
        self._own(typed.id, text or b"", self.typist)
        self._journal.append(
            "command_started",
            id=typed.id,
            shell=self._shell,
            actor=self.typist,
            typed=True,
            offset=mark.end,
            not_before=mark.at,
            **({} if text is None else text_fields(text)),
        )
        return typed

    def _over(self, offset: int, now: float, **how: Any) -> None:
        typed, self._typed = self._typed, None
        assert typed
        self._origins.end(self._origin, typed.id)
        self._journal.append(
            "command_ended",
            id=typed.id,
            shell=self._shell,
            actor=typed.actor,
            end_offset=offset,
            duration=round(now - typed.began, 6),
            more_lines=typed.more or None,
            **how,
        )

    def _ended(self, command: Exec, who: Who) -> None:
        if command.phase is Phase.REFUSED:
            if who.key is not None:
                self._keyed.forget(command.id)
            self._origins.end(self._origin, command.id)
            return
        result = outcome(command)
        if who.key is not None:
            self._keyed.end(command.id, start_offset=command.start_offset, **result)
        self._origins.end(self._origin, command.id)
        self._journal.append(
            "command_ended",
            id=command.id,
            shell=self._shell,
            actor=who.actor,
            key=who.key,
            output_digest=self._digest(command),
            **result,
        )

    def _digest(self, command: Exec) -> str | None:
        if self.hidden or command.start_offset is None or command.end_offset is None:
            return None
        return self.output_digest(command.start_offset, command.end_offset)

    def _own(self, id_: str, text: bytes, actor: str) -> None:
        line = short(text[:HEAD].decode("utf-8", "replace"))
        self._origins.begin(self._origin, Origin("command", id_, line, actor))


def outcome(command: Exec) -> dict[str, Any]:
    """Return how a command ended."""
    return {
        "exit_code": command.exit_code,
        "signal": command.signal,
        "end_offset": command.end_offset,
        "timed_out": command.timed_out,
        "shell_exited": command.shell_exited,
        "incomplete": command.incomplete,
        "duration": round(command.duration, 6),
    }


def text_fields(text: bytes) -> dict[str, Any]:
    """Return a command's text for an entry."""
    if len(text) <= MAX_TEXT:
        return {"command": text.decode("utf-8", "replace")}
    return {
        "command": text[:HEAD].decode("utf-8", "replace"),
        "command_bytes": len(text),
        "command_sha256": hashlib.sha256(text).hexdigest(),
    }
