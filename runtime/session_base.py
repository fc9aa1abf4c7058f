"""What every part of a session's handle knows: whose session it is, and what the store says of it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from holdfast.errors import SessionNotFound
from holdfast.runtime import health
from holdfast.runtime.line import Line
from holdfast.runtime.store.rows import SessionRow

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.runtime.controller import Holdfast


class SessionBase:
    """One session, by its row."""

    def __init__(self, controller: Holdfast, row: SessionRow) -> None:
        self._controller = controller
        self._row = row
        self._line = Line(controller, lambda: self._row)

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """12 hex digits."""
        return self._row.id

    @property
    def name(self) -> str:
        """Unique among the sessions that are there."""
        return self._row.name

    @property
    def state(self) -> str:
        """`running`, `suspended`, `dead`, `creating` or `removed`."""
        return self._row.state

    @property
    def image(self) -> str:
        """The image it was made from."""
        return self._row.image

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return self._row.created_at

    @property
    def parent_snapshot_id(self) -> str | None:
        """The snapshot it was restored from, if it was."""
        return self._row.parent_snapshot_id

    @property
    def row(self) -> SessionRow:
        """What the store knows."""
        return self._row

    def refresh(self) -> Self:
        """Look again at the store and at the container."""
        with contextlib.suppress(SessionNotFound):
            health.observed(self._controller, self._row, set())
        found = [row for row in self._controller.store.sessions(removed=True) if row.id == self.id]
        self._row = found[0]
        return self

    def _fresh(self) -> SessionRow:
        """The row as it is now, of a session whose container runs."""
        health.check(self._controller, self.id)
        return self._controller.session_row(self.id)
