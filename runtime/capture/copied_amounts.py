"""The amounts of memory and files that a capture has copied or waits for, for observers of its steps.

Copied amounts are the lengths of the files with pages, which CRIU writes into the staging folder, and of the
data that the checkpointer copies there: nothing is counted while the session is frozen. The checkpointer
itself is not known here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.runtime.operations.step import with_watcher
from holdfast.snapshots.checkpointer.layers import file_entry

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
    with _watched(context, f"copying the memory of {name}, MiB", lambda: written(staging), total):
        yield


@contextmanager
def files_shown(context: Context, name: str, staging: Path, total: int) -> Iterator[None]:
    """Report the MiB of files copied for the session of this name while the block lasts; as `shown`."""
    data = staging / file_entry.FOLDER / file_entry.DATA
    with _watched(context, f"copying the files of {name}, MiB", lambda: _held(data), total):
        yield


@contextmanager
def arriving_shown(context: Context, name: str, look: Callable[[], int], total: int) -> Iterator[None]:
    """Report the MiB of memory that have arrived in the restored session of this name; as `shown`.

    `look` returns the bytes that are there.
    """
    with _watched(context, f"waiting for the memory of {name}, MiB", look, total):
        yield


@contextmanager
def _watched(context: Context, text: str, look: Callable[[], int], total: int) -> Iterator[None]:
    if not context.is_watched or total < 1 << 20:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        before, pause = -1, PATIENCE
        while not ended.wait(pause):
            pause = INTERVAL
            now = min(look(), total) >> 20
            if now != before:  # the same amount again would hide a step that began in the meantime
                context.doing(text, now, total >> 20)
                before = now

    watching = threading.Thread(target=with_watcher(watch), name="written-amounts", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def written(staging: Path) -> int:
    """Return the bytes of memory in a staging folder."""
    return sum(_held(path) for path in staging.glob("images/pages-*.img"))


def _held(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # not begun, or removed because the capture failed
        return 0
