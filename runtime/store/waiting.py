"""Sessions that wait in the pool of a home: containers that are ready, and do not belong to a session yet.

A row is here from the moment its container can be handed over until a session has it, or it is given up. The
process that deletes the row has the container, and no other does. It does not know engines.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.store import schema

if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.store.database import Database


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A future session, under its future id.

    Attributes:
        digest: of all that it was made with and that cannot be changed any more (`pool_plan.digest`).
        image: the image of its container.
        options: of the session.
        kernel: its kernel is ready.
        init_pid, init_start: its first process, and when that began (`owner.start_of`).
    """

    id: str
    digest: str
    image: str
    container_id: str
    init_pid: int
    init_start: str
    kernel: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    made_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class WaitingSessions:
    """The waiting sessions of one home."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, row: WaitingRow) -> None:
        """Record a session that can be handed over from now on."""
        values = {name: getattr(row, name) for name in row.__slots__}
        with self._db.writing() as db:
            db.insert(schema.WAITING, values)

    def all(self) -> list[WaitingRow]:
        """Return all waiting sessions, in the order in which they are handed over, oldest first."""
        return self._db.rows(lambda row: WaitingRow(**row), schema.WAITING, "ORDER BY made_at, id")

    def claim(self, waiting_id: str) -> bool:
        """Remove a session from the pool; return whether it was still there, in which case the caller owns
        it."""
        with self._db.writing() as db:
            return db.delete(schema.WAITING, "id = ?", waiting_id) == 1
