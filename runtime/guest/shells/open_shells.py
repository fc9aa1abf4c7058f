"""The shells of a session by name, each with its access and its keyboard: opened, found and closed.

Owns which shells there are. A shell's programs are its own business, and the right to type its
shell_access's.

Programs of a copy get a second notice of their terminal's new size. A restored program begins at the call
it was captured in. A signal that comes before it gets there is handled immediately, and then the call
begins and waits, although the signal should have ended it: an editor would show the old size until the next
key. It cannot be seen whether a program was that late, and a notice too many only paints the same again, so
everyone gets a second one as soon as all of them sleep.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from typing import Any

from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.layout import MAIN, Layout
from holdfast.runtime.guest.shells.keyboard import Keyboard
from holdfast.runtime.guest.shells.process_progress import at_work
from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.shell_access import ShellAccess
from holdfast.runtime.guest.shells.terminal import ProcessTerminal, TerminalSize
from holdfast.runtime.guest.wire.connection import RequestRefused

MAX_SHELLS = 16
"""Each can keep 256 MiB of output."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
TICK = 0.05
TRIES = 40
"""Programs that work for longer than this are not in a call that the first notice should have ended."""

Note = Callable[..., object]


class OpenShells:
    """All shells of a session. `make` returns an unstarted one; `note` writes to the journal."""

    def __init__(self, layout: Layout, make: Callable[[str], Shell], note: Note) -> None:
        self._layout = layout
        self._make = make
        self._note = note
        self.shells: dict[str, Shell] = {}
        self.accesses: dict[str, ShellAccess] = {}
        self.keyboards: dict[str, Keyboard] = {}

    def add(self, name: str, size: TerminalSize | None = None) -> Shell:
        """Add a shell without starting it."""
        shell = self._make(name)
        if size is not None:
            shell.resize(size)
        self.shells[name] = shell
        self.accesses[name] = ShellAccess(name, shell.size, shell.resize, self._note)
        self.keyboards[name] = Keyboard(shell, self._note)
        return shell

    def open(self, name: str, size: TerminalSize, actor: str) -> tuple[Shell, bool]:
        """Return the shell of that name, and whether it is new.

        Raises:
            RequestRefused: the name is not valid, or there are too many.
        """
        if (known := self.shells.get(name)) is not None:
            if known.closing:
                raise RequestRefused("busy", f"cannot open shell {name}: it is being closed; try again")
            return known, False
        if not NAME.fullmatch(name):
            raise RequestRefused(
                "invalid", "cannot open the shell: its name can have up to 40 letters, digits, - and _"
            )
        if len(self.shells) >= MAX_SHELLS:
            raise RequestRefused(
                "limit", f"cannot open shell {name}: there are {MAX_SHELLS} already; close one"
            )
        # Left by a shell of the same name, in files that were restored without processes.
        removal.discard(self._layout.shell(name).folder)
        try:
            shell = self.add(name, size)
        except OSError as error:
            self._forget(name)
            raise RequestRefused("failed", f"cannot open shell {name}: {error.strerror}") from None
        self._note("shell_opened", shell=name, actor=actor, rows=size.rows, cols=size.columns)
        shell.start()
        return shell, True

    async def close(self, name: str, actor: str, *, force: bool) -> None:
        """End a shell and the programs on its terminal, and forget its output.

        Raises:
            RequestRefused: it is used, and `force` is false; or it is the main one, or there is none.
        """
        shell, shell_access = self.find(name), self.accesses[name]
        if name == MAIN:
            raise RequestRefused("invalid", "cannot close shell main: a session always has it")
        if not force:
            shell_access.require(actor, f"close shell {name}")
            if (command := shell.current) is not None:
                raise RequestRefused(
                    "in_use", f"cannot close shell {name}: command {command.id} is running in it"
                )
            if any(seat.actor != actor for seat in shell_access.seats):
                raise RequestRefused("in_use", f"cannot close shell {name}: terminals are attached to it")
        await shell.close()
        if self.shells.get(name) is shell:
            self._note("shell_closed", shell=name, actor=actor)
            self._forget(name)

    def find(self, name: str) -> Shell:
        """Return the shell of that name.

        Raises:
            RequestRefused: there is none.
        """
        try:
            return self.shells[name]
        except KeyError:
            raise RequestRefused(
                "unknown_shell", f"cannot find shell {name[:100]}: the session has {', '.join(self.shells)}"
            ) from None

    def described(self, shell: Shell) -> dict[str, Any]:
        """Return the state of a shell, for clients."""
        return {
            "name": shell.name,
            "pid": shell.pid,
            "rows": shell.size.rows,
            "cols": shell.size.columns,
            "offset": shell.log.end,
            "state": shell.state,
            "cwd": shell.kept.cwd(),
            "exec": shell.current.id if shell.current else None,
            **self.accesses[shell.name].describe(),
            "observed": shell.watching.state().as_dict(),
        }

    def _forget(self, name: str) -> None:
        for known in (self.shells, self.accesses, self.keyboards):
            known.pop(name, None)
        removal.discard(self._layout.shell(name).folder)


def repeat_size_notice(current: Callable[[], ProcessTerminal | None]) -> None:
    """Notify the foreground programs of the `current` terminal once more when they sleep, if it is still
    theirs.

    A shell that reads a line needs none: it asks for the size before the next one.
    """
    loop = asyncio.get_running_loop()
    terminal = current()
    group = terminal.foreground() if terminal else None

    def look(left: int) -> None:
        if terminal is None or current() is not terminal or terminal.foreground() != group:
            return
        if not at_work(terminal.pid):
            terminal.signal_foreground(signal.SIGWINCH)
        elif left:
            loop.call_later(TICK, look, left - 1)

    if terminal is not None and group != terminal.pid:
        loop.call_later(TICK, look, TRIES)
