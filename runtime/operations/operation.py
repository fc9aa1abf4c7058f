"""An operation: several steps, of which either all take effect or none; and the undo of each kind.

The intent is recorded first. If a step fails or is interrupted, the steps before it are undone immediately;
if the process dies, `recovery` undoes them in the next one. Undoing needs only the operation's row: all
that an operation makes carries its id as a label or in its name, and rows that it made have a state of
their own. The modules that carry operations out register how they are undone; this one does not know their
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.base.interrupts import held
from holdfast.errors import HoldfastError
from holdfast.runtime.operations.context import Context
from holdfast.runtime.store import owner
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind, OperationRow

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import OperationState

    Undo = Callable[[Context, OperationRow], OperationState | None]
    """A function that removes what an operation had made, or finishes it. Every step may be repeated, since
    an undo may itself be cut short. Returns how the operation ended; None if that must wait for the next
    process."""


_TABLE: dict[OperationKind, Undo] = {}


@contextmanager
def carry_out(
    context: Context,
    kind: OperationKind,
    *,
    session_id: str | None = None,
    snapshot_id: str | None = None,
    details: OperationDetails | None = None,
    plan: Callable[[], object] | None = None,
) -> Iterator[OperationRow]:
    """Run the block as one operation; yield its row.

    `plan` records in the store what is to be made, in the same transaction as the intent.

    Whenever an interrupt arrives, either nothing has been done yet or it is undone here. A block that ends
    with `store.operations.complete` leaves nothing to undo.
    """
    begun: OperationRow | None = None
    try:
        with held():
            with context.store.together():
                intent = context.store.operations.begin(
                    kind, session_id=session_id, snapshot_id=snapshot_id, details=details
                )
                if plan is not None:
                    plan()
            begun = intent
        yield begun
    except BaseException as error:
        if begun is not None:
            with held():
                try:
                    undo(context, begun.id)
                except HoldfastError as second:
                    error.add_note(f"the operation could not be undone yet: {second}")
        raise
    finally:
        context.idle()
    with held():
        context.store.operations.end(begun.id, "done")


def undo(context: Context, operation_id: str) -> None:
    """Undo or finish an operation that is still open; close its row unless that must wait."""
    row = next((row for row in context.store.operations.open() if row.id == operation_id), None)
    if row is None:
        return
    ended = undo_of(row.kind)(context, row)
    if ended is not None:
        context.store.operations.end(row.id, ended)


def is_orphan(row: OperationRow) -> bool:
    """Check whether the process that started the operation has ended."""
    return not owner.alive(row.owner_pid, row.owner_start)


def undoes(*kinds: OperationKind) -> Callable[[Undo], Undo]:
    """Register the decorated function for these kinds."""

    def enter(undo: Undo) -> Undo:
        _TABLE.update(dict.fromkeys(kinds, undo))
        return undo

    return enter


def undo_of(kind: OperationKind) -> Undo:
    """Return the function that undoes operations of this kind.

    Raises:
        KeyError: the module that carries them out was not imported.
    """
    return _TABLE[kind]
