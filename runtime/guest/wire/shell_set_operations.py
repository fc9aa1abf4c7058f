"""The operations that open and close shells beside the main one."""

from __future__ import annotations

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.layout import DEFAULT_COLUMNS, DEFAULT_ROWS
from holdfast.runtime.guest.shells.terminal import TerminalSize
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.shell_operations import size_of


async def open_(guest: Guest, call: ClientCall) -> None:
    """Open a shell, or find the one of that name: a request that is repeated does no harm."""
    size = size_of(call, TerminalSize(DEFAULT_ROWS, DEFAULT_COLUMNS))
    shell, new = guest.opened.open(call.text("shell"), size, str(call.actor()))
    await call.finish("opened", new=new, shell=guest.opened.described(shell))


async def close(guest: Guest, call: ClientCall) -> None:
    """End a shell for good."""
    force = call.frame.head.get("force") is True
    await guest.opened.close(call.text("shell"), str(call.actor()), force=force)
    await call.finish("ok")


OPERATIONS: Operations = {"shell_open": open_, "shell_close": close}
