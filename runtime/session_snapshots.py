"""What can be done with the moments of a session, as its handle offers it: capture, fork, suspend, resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.runtime.snapshot import Snapshot, machinery
from holdfast.runtime.store.rows import SessionRow, SnapshotKind

if TYPE_CHECKING:
    from holdfast.runtime.line import Line
    from holdfast.runtime.session import Session


class SessionSnapshots:
    """Captures one session, and brings it back. `became` is told its row when that changed."""

    def __init__(self, line: Line, became: Callable[[SessionRow], Session]) -> None:
        self._line = line
        self._controller = line.controller
        self._became = became

    def snapshot(
        self, label: str | None = None, kind: SnapshotKind = "live", *, reason: str | None = None
    ) -> Snapshot:
        """Capture the session at one instant; it runs on.

        Args:
            label: a name for the snapshot; must be free.
            kind: `live` (files, memory, processes) or `filesystem` (files only).
            reason: why, for people who look at the tree later.

        Raises:
            LiveUnsupported: live is not possible; nothing was taken.
            CaptureFailed, SessionBusy, SessionDead: nothing was taken.
        """
        row = machinery().take(self._controller, self._line.fresh(), label, kind, reason)
        return Snapshot(self._controller, row)

    def fork(self, n: int = 1, name: str | None = None) -> list[Session]:
        """Make n sessions that go on from this moment; this one runs on, too. All of them or none."""
        taken = self.snapshot()
        try:
            return taken.fork(n, name)
        except BaseException:
            # The snapshot was only taken for the forks.
            taken.remove()
            raise

    def suspend(self) -> Session:
        """Capture the session, then free its memory and processors until `resume`."""
        return self._became(machinery().suspend(self._controller, self._line.fresh()))

    def resume(self) -> Session:
        """Let a suspended session go on."""
        return self._became(machinery().resume(self._controller, self._line.row))
