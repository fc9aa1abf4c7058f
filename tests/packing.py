"""Waiting for what is packed in the background, on machines that have much else to do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

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
    """Wait until no process packs, and those that this one started have ended."""
    return polling.until(lambda: not packing_request.at_work(home) and not _started(), PATIENCE)


def _started() -> bool:
    """Check whether a packer that this process has started still runs."""
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for pid in listed.read_text().split():
                with suppress(OSError):
                    if background_packer.__name__.encode() in Path("/proc", pid, "cmdline").read_bytes():
                        return True
    return False
