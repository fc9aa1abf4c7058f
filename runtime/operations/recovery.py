"""Recovery, at each start: undoes the operations of dead processes, and removes their leftovers."""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.runtime.store import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


def recover(context: Context, fill_undo_table: Callable[[], None]) -> None:
    """Undo the operations of ended processes. Cheap when there is nothing to do.

    Without an engine, or without room on the disk, nothing can be undone; the next controller tries again.

    Args:
        context: the context of the call.
        fill_undo_table: imports the modules that carry out operations. Called only if there is something to
            undo, because most commands need none of them.
    """
    if peek.abandoned(context.home.below("holdfast.db")) is not False:
        _recover(context, fill_undo_table)
    _sweep(context)


def _sweep(context: Context) -> None:
    """Remove the leftovers of ended operations in `staging`.

    A checkpointer whose caller was killed can write for a moment longer than recovery waits for it.
    """
    place = context.home.below("staging")
    try:
        found = os.listdir(place)  # noqa: PTH208 - pathlib takes longer to load
    except OSError:
        return
    for name in peek.ended(context.home.below("holdfast.db"), found) if found else ():
        import shutil

        shutil.rmtree(f"{place}/{name}", ignore_errors=True)


def _recover(context: Context, fill_undo_table: Callable[[], None]) -> None:
    # Imported here, because every command line gets as far as this.
    from holdfast.base import ballast
    from holdfast.base.locks import exclusive
    from holdfast.errors import EngineUnavailable, SessionBusy, StoreError
    from holdfast.runtime.operations.operation import is_orphan, undo

    orphans = [row for row in context.store.operations.open() if is_orphan(row)]
    if not orphans:
        return
    fill_undo_table()
    with ballast.given_up(context.home.root) as roomy:
        try:
            with exclusive(context.home.locks, "recovery", "recover"):
                # Newest first: one may have been started within another.
                for orphan in reversed(orphans):
                    undo(context, orphan.id)
        except (SessionBusy, EngineUnavailable):
            return
        except StoreError:
            if roomy:
                raise
