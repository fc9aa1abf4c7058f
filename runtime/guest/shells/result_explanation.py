"""Explanations in a command's result, where its exit code alone would leave the caller to guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.guest.shells import syntax
from holdfast.runtime.guest.shells.shell_fsm import Exec
from holdfast.runtime.guest.shells.shell_program import ShellKind

if TYPE_CHECKING:
    from holdfast.runtime.guest.guest import Guest
    from holdfast.runtime.guest.shells.shell import Shell

LOOKED_AT = 64 << 10
"""Bytes of the newest output in which bash may have complained."""
COMPLAINT = b"syntax error"
STARVED = b": Resource temporarily unavailable"
"""What a shell writes that cannot fork."""
BAD_USAGE = 2
"""Exit code of bash after a syntax error, and of many others for other reasons."""
SECONDS = 2.0
"""Delay allowed for an explanation, which takes milliseconds unless bash has been replaced."""
_HOW = "close its quotes, blocks or here-document"


async def explained(guest: Guest, shell: Shell, command: Exec) -> str:
    """Return the explanation of a command's end, or an empty string."""
    if shell.program.kind is not ShellKind.BASH:
        return ""  # another shell's grammar, of which its own message tells
    if command.exit_code and STARVED in _newest(shell, command):
        from holdfast.runtime.guest.pulse import shortage  # few sessions need it

        return shortage.of_processes()
    if command.incomplete:
        fault = await _fault(guest, shell, command)
        why = f" ({fault.phrase()})" if fault and fault.incomplete else ""
        return f"the command is not finished{why}: {_HOW}; what the shell had not run of it was dropped"
    if command.exit_code == BAD_USAGE or _complains(shell, command):
        fault = await _fault(guest, shell, command)
        if fault is not None:
            return f"bash could not read all of the command: {fault.phrase()}"
    return ""


def _complains(shell: Shell, command: Exec) -> bool:
    """Return whether the output has bash's complaint. The lines after it run all the same."""
    return COMPLAINT in _newest(shell, command)


def _newest(shell: Shell, command: Exec) -> bytes:
    end = command.end_offset or 0
    start = max(command.start_offset, end - LOOKED_AT, shell.log.start)
    return shell.log.read(start, end - start) if start < end else b""


async def _fault(guest: Guest, shell: Shell, command: Exec) -> syntax.Fault | None:
    text = shell.commands.text_of(command)
    if text is None:
        return None
    try:
        return await syntax.check(text, shell.kept.state(), guest.account, guest.reaper, SECONDS)
    except syntax.CannotCheck:
        return None
