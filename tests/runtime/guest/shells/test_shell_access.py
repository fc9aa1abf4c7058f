"""The people at a shell, without a terminal: the times at which a copy's size can change."""

from __future__ import annotations

import asyncio

from holdfast.runtime.guest.shells.shell_access import Seat, ShellAccess
from holdfast.runtime.guest.shells.terminal import TerminalSize

FIRST = TerminalSize(40, 120)
SMALL = TerminalSize(30, 100)


def test_a_terminal_lost_with_the_capture_does_not_resize_a_copy_before_it_has_arrived() -> None:
    """Programs of the copy are possibly not running yet when its dead connection is noticed."""
    sizes: list[TerminalSize] = []

    async def run() -> None:
        shell_access = ShellAccess("main", FIRST, sizes.append, lambda kind, **fields: None)
        with shell_access.seated(Seat("token", "person:alice", SMALL, view=False), force=False):
            shell_access.cut()
            shell_access.woken(copy=True)
        assert sizes == [SMALL]
        shell_access.arrived()
        assert sizes == [SMALL, FIRST]

    asyncio.run(run())
