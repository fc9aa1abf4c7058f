"""The terminals of the shells as the pulse reports them: size, modes, foreground and attached terminals."""

from __future__ import annotations

import termios
from typing import TYPE_CHECKING, Any

from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.shells.terminal import command_of

if TYPE_CHECKING:
    from holdfast.runtime.guest.shells.shell import Shell
    from holdfast.runtime.guest.shells.shell_access import Desk


def modes(attributes: list[Any] | None) -> dict[str, bool] | None:
    """Return the termios(3) settings that decide how typed text is processed; None if not known."""
    if attributes is None:
        return None
    local, output = attributes[3], attributes[1]
    canonical = bool(local & termios.ICANON)
    signals = bool(local & termios.ISIG)
    return {
        "echo": bool(local & termios.ECHO),
        "canonical": canonical,
        "signals": signals,
        "raw": not canonical and not signals and not output & termios.OPOST,
    }


def describe(shell: Shell, desk: Desk) -> dict[str, Any]:
    """Return the report of a shell and its terminal."""
    terminal, held, current = shell.terminal, shell.kept.state(), shell.current
    group = terminal.foreground() if terminal else None
    picture = shell.picture.describe()
    return {
        "shell": shell.name,
        "pid": shell.pid,
        "name": (access.link(f"/proc/{shell.pid}/fd/0") or "").removeprefix("/dev/") or None,
        "rows": shell.size.rows,
        "cols": shell.size.columns,
        "modes": modes(_attributes(terminal.fd) if terminal else None),
        "foreground": group,
        "command": command_of(group),
        "exec": current.id if current else None,
        "observed": shell.watching.state().as_dict(),
        "alternate_screen": picture["entered"] is not None and picture["left"] is None,
        "cwd": shell.kept.cwd(),
        "variables": len(held.variables),
        "exported": sum(variable.exported for variable in held.variables.values()),
        "functions": len(held.functions),
        "aliases": len(held.aliases),
        "output_offset": shell.log.end,
        "holder": desk.lease.holder,
        "attached": [seat.actor for seat in desk.seats],
    }


def _attributes(fd: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None
