"""The commands a shell remembers, by their ids: the newest one with its text, and those before it.

It does not know how a command is run.
"""

from __future__ import annotations

from holdfast.runtime.guest.shells.shell_fsm import Exec

KEPT = 1000


class KnownCommands:
    """Commands by id; the oldest are forgotten."""

    def __init__(self) -> None:
        self._commands: dict[str, Exec] = {}
        self._newest: tuple[Exec, bytes] | None = None

    def add(self, command: Exec, text: bytes) -> None:
        """Remember a command that has been submitted."""
        self._newest = command, text
        self._commands[command.id] = command
        if len(self._commands) > KEPT:
            # At most one command is not over, and it is the newest, so the oldest is always over.
            del self._commands[next(iter(self._commands))]

    def find(self, id_: str) -> Exec | None:
        """Return the command of that id, if it is known."""
        return self._commands.get(id_)

    def text_of(self, command: Exec) -> bytes | None:
        """Return the text of a command; only that of the newest is kept."""
        return self._newest[1] if self._newest and self._newest[0] is command else None

    def forget(self, id_: str) -> None:
        """Forget a command that was refused: its id may be used again."""
        self._commands.pop(id_, None)
