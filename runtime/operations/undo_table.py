"""How each kind of operation is undone. Entries are made by the modules that carry the operations out.

Knows nothing of what any of them does.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.runtime.operations.context import Context
from holdfast.runtime.store.rows import OperationKind, OperationRow, OperationState

Undo = Callable[[Context, OperationRow], OperationState | None]
"""Takes back what an operation had made, or finishes it. Every step may be repeated, as an undo may itself be
cut short. Returns how the operation ended; None if that must wait for the next process that looks."""

_TABLE: dict[OperationKind, Undo] = {}


def undoes(*kinds: OperationKind) -> Callable[[Undo], Undo]:
    """Enter the function under these kinds."""

    def enter(undo: Undo) -> Undo:
        _TABLE.update(dict.fromkeys(kinds, undo))
        return undo

    return enter


def undo_of(kind: OperationKind) -> Undo:
    """The function that undoes this kind.

    Raises:
        KeyError: the module that carries it out was not imported.
    """
    return _TABLE[kind]
