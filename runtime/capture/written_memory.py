"""The amount of memory that a capture has written so far, for observers of its steps.

It is the length of the files with pages, which CRIU writes into the staging folder: nothing is counted while
the session is frozen. Knows no checkpointer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.runtime.operations.step import with_watcher

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

PATIENCE = 1.0
"""Seconds before the first look: most captures have ended by then."""
INTERVAL = 0.25
"""Seconds between two looks."""


@contextmanager
def shown(context: Context, name: str, staging: Path, total: int) -> Iterator[None]:
    """Report the MiB of memory written for the session of this name while the block lasts.

    Args:
        context: the context whose watcher gets the amounts; without one, nothing is looked at.
        name: the session's name.
        staging: the folder that the capture writes to.
        total: the bytes of memory that its processes have.
    """
    if not context.is_watched or total < 1 << 20:
        yield
        return
    ended = threading.Event()

    def look() -> None:
        before, pause = -1, PATIENCE
        while not ended.wait(pause):
            pause = INTERVAL
            now = min(written(staging), total) >> 20
            if now != before:  # the same amount again would hide a step that began in the meantime
                context.doing(f"copying the memory of {name}, MiB", now, total >> 20)
                before = now

    looking = threading.Thread(target=with_watcher(look), name="written-memory", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()


def written(staging: Path) -> int:
    """Return the bytes of memory in a staging folder."""
    found = 0
    for path in staging.glob("images/pages-*.img"):
        try:
            found += path.stat().st_size
        except OSError:  # removed: the capture failed
            continue
    return found
