"""Waits until a shell is free: as long as the caller wants, and briefly for what is already ending.

It knows when waiting is worthwhile; what happens to a command that finds the shell taken is decided
elsewhere.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from holdfast.runtime.guest.shells.keyboard import echo_at
from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.typed import Echo

ENDING = 2.0
"""Seconds a command may take to end after an interrupt or an answer, before it counts as still running."""


async def free(shell: Shell, until: float) -> None:
    """Return when no command of `exec` has the shell, or at that time of the loop.

    One that was just interrupted or answered gets a little longer, unless it waits for more input.
    """
    while (current := shell.current) is not None:
        touched = shell.touched + ENDING if shell.touched >= current.began > 0 else 0.0
        limit = max(until, 0.0 if shell.watching.waiting else touched)
        if limit <= asyncio.get_running_loop().time():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(limit):
                await shell.log.more()


async def prompted(shell: Shell) -> None:
    """Return when a shell without a command reads keys, or soon if it does not."""
    limit = asyncio.get_running_loop().time() + ENDING
    while shell.current is None and echo_at(shell) is not Echo.PROMPT:
        try:
            async with asyncio.timeout_at(limit):
                await shell.log.more()
        except TimeoutError:
            return
