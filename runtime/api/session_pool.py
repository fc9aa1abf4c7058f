"""The pool of a home, as its controller offers it: sessions that are ready in advance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.runtime.lifecycle import pool_filler, pool_plan, waiting_session
from holdfast.runtime.lifecycle.pool_plan import PoolSettings

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.runtime.operations.context import Context


@dataclass(frozen=True, slots=True)
class WaitingSession:
    """A session that waits in the pool.

    Attributes:
        id: the id it will have.
        image: of its container.
        options: with which it was made.
        kernel: its kernel is ready.
        made_at: when it was made.
    """

    id: str
    image: str
    options: dict[str, Any]
    kernel: bool
    made_at: datetime

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {
            "id": self.id,
            "image": self.image,
            "options": self.options,
            "kernel": self.kernel,
            "made_at": self.made_at.isoformat(),
        }


class SessionPool:
    """Sessions that wait until a caller needs one (docs/pool.md)."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def settings(self) -> PoolSettings:
        """The wanted number of waiting sessions, and their image."""
        return pool_plan.read(self._context.home)

    def set(self, size: int, image: str | None = None, *, kernel: bool = False) -> None:
        """Keep this many sessions waiting; a separate process makes them. With 0, remove them all.

        Args:
            size: 0 to 100.
            image: for sessions with this image; by default Holdfast's own.
            kernel: have their kernel ready as well.

        Raises:
            InvalidArgument: the pool would be too large.
            StoreError: the setting cannot be written.
            EngineError: waiting sessions cannot be removed.
        """
        settings = PoolSettings(size, image, kernel)
        pool_plan.write(self._context.home, settings)
        if not size:
            for row in self._context.store.waiting.all():
                waiting_session.give_up(self._context, row)
        pool_filler.start(self._context.home)

    @contextmanager
    def kept(self, size: int | None) -> Iterator[None]:
        """Keep this many sessions waiting during the block, then as many as before; None: no change.

        Raises:
            HoldfastError: as for `set`.
        """
        before = self.settings
        if size is None:
            yield
            return
        self.set(size, before.image, kernel=before.kernel)
        try:
            yield
        finally:
            self.set(before.size, before.image, kernel=before.kernel)

    def waiting(self) -> list[WaitingSession]:
        """Return the waiting sessions, in the order in which they are handed over."""
        rows = self._context.store.waiting.all()
        return [WaitingSession(row.id, row.image, row.options, row.kernel, row.made_at) for row in rows]

    @property
    def trouble(self) -> str:
        """Why the last attempt to fill the pool failed; empty if it did not."""
        return pool_filler.trouble(self._context.home)

    @property
    def at_work(self) -> bool:
        """True while a process fills it."""
        return pool_filler.at_work(self._context.home)
