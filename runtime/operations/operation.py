"""An operation: several steps, of which either all take effect or none.

The intent is recorded first. If a step fails or is interrupted, the steps before it are undone at once; if
the process dies, `recovery` undoes them in the next one. Undoing needs only the operation's row: all that an
operation makes carries its id as a label or in its name, and rows that it made have a state of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.base.interrupts import held
from holdfast.errors import HoldfastError
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.undo_table import undo_of
from holdfast.runtime.store import owner
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind, OperationRow


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
    with `store.operations.complete` has nothing to undo from then on.
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
    """Check whether the process that started the operation is gone."""
    return not owner.alive(row.owner_pid, row.owner_start)
