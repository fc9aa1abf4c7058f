"""A session that has arrived in its new container: what the restore found, on its way to the store.

Knows nothing of how it got there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.base.value_classes import dataclass
from holdfast.runtime.verification import verification_result
from holdfast.snapshots.verification import Verification

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store


@dataclass(frozen=True, slots=True)
class ArrivedSession:
    """A restored session.

    `row` is as it was before until the restore is complete. `hooks` are the failures of hooks, `found` is the
    comparison with the freeze, if it has its processes.
    """

    row: SessionRow
    container: str
    hooks: list[str]
    found: Verification | None

    def keep(self, store: Store) -> None:
        """Store all of it in the details of the session. Raises StoreError."""
        store.keep_details(self.row.id, hooks=self.hooks)
        if self.found is not None:
            store.keep_details(self.row.id, verification=verification_result.stored(self.found))

    def note(self, context: Context) -> None:
        """Record the comparison in the session's journal."""
        if self.found is not None:
            verification_result.note(context, self.row, self.found)

    def report(self, context: Context) -> None:
        """Report what differs."""
        if self.found is not None:
            verification_result.report(context, self.row, self.found)
