"""Waiting for background packing, on busy machines."""

from __future__ import annotations

import threading

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.storage import background_packer, packing_request

PATIENCE = 240.0
"""Seconds for a process of the lowest priority beside many others."""


def settled(home: Home) -> bool:
    """Pack what no process packs yet, and wait for one that does; return whether nothing is left to do."""

    def idle() -> bool:
        if packing_request.mark_of(home) is not None and not packing_request.due(home):
            packing_request.mark(home)  # what failed is tried again at once, not in a minute
        background_packer.run(home)
        return packing_request.mark_of(home) is None and not packing_request.at_work(home)

    return polling.until(idle, PATIENCE)


def ended(home: Home) -> bool:
    """Wait until no process packs, and the packers that this one started are collected."""
    return polling.until(lambda: not packing_request.at_work(home) and not _collecting(), PATIENCE)


def _collecting() -> bool:
    """Check whether a thread still waits for a packer that this process has started."""
    return any(thread.name == packing_request.COLLECTOR for thread in threading.enumerate())
