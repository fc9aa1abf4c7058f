"""The people at a shell, without a terminal: when a copy's size may change."""

from __future__ import annotations

import asyncio

from holdfast.runtime.guest.shells.shell_access import Desk, Seat
from holdfast.runtime.guest.shells.terminal import TerminalSize

FIRST = TerminalSize(40, 120)
SMALL = TerminalSize(30, 100)


def test_a_terminal_lost_with_the_capture_does_not_resize_a_copy_before_it_has_arrived() -> None:
    """Programs of the copy may not run yet when its dead connection is noticed."""
    sizes: list[TerminalSize] = []

    async def run() -> None:
        desk = Desk("main", FIRST, sizes.append, lambda kind, **fields: None)
        with desk.seated(Seat("token", "person:alice", SMALL, view=False), force=False):
            desk.cut()
            desk.woken(copy=True)
        assert sizes == [SMALL]
        desk.arrived()
        assert sizes == [SMALL, FIRST]

    asyncio.run(run())
