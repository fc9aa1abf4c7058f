"""The table of undo functions by kind of operation. The modules that carry operations out register them.

Knows nothing of what the operations do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationKind, OperationRow, OperationState

    Undo = Callable[[Context, OperationRow], OperationState | None]
    """A function that removes what an operation had made, or finishes it. Every step may be repeated, since
    an undo may itself be cut short. Returns how the operation ended; None if that must wait for the next
    process."""

_TABLE: dict[OperationKind, Undo] = {}


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
