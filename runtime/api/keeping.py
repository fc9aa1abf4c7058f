"""Retention in a home, as its controller offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.capture import autosnapshot
from holdfast.runtime.retention import prune
from holdfast.runtime.store import lifetime, quotas

if TYPE_CHECKING:
    from holdfast.runtime.lifetimes.session_ends import Watch
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.retention.garbage import Garbage
    from holdfast.runtime.store.quotas import Quota, QuotaUsage


class Keeping:
    """Quota, garbage collection and automatic captures of one home."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._watch: Watch | None = None

    @property
    def quota(self) -> int | None:
        """The limit of bytes for all snapshots of this home; None without a limit."""
        return prune.quota(self._context.home)

    @quota.setter
    def quota(self, size: int | None) -> None:
        prune.set_quota(self._context.home, size)

    @property
    def limits(self) -> Quota:
        """The quota of this home for its sessions and commands; `quota` limits its snapshots."""
        return quotas.read(self._context.home.place)

    @limits.setter
    def limits(self, limits: Quota) -> None:
        quotas.write(self._context.home.place, limits)
        if limits.life is None and limits.idle is None:
            return
        for row in self._context.store.sessions():
            if row.state == "running":
                lifetime.change(self._context.store, row.id, lambda kept: kept)

    @property
    def usage(self) -> QuotaUsage:
        """The use that these limits are for."""
        return self._context.store.usage()

    def collect_garbage(self, *, dry_run: bool = False) -> list[Garbage]:
        """Remove garbage: expired snapshots, leftovers, stale images. Return the removed items.

        Args:
            dry_run: only report.

        Raises:
            SessionBusy: another process is collecting.
        """
        from holdfast.runtime.retention import garbage

        return garbage.collect(self._context, dry_run=dry_run)

    def carry_out_lifetimes(self) -> list[tuple[str, str]]:
        """End sessions whose life is over, and put idle sessions to sleep.

        Returns the names of these sessions, with `suspended` or `removed`. A failure in one is reported as
        progress, and tried again later. A running server does this as well, as does `holdfast autosnap`.
        """
        from holdfast.runtime.lifetimes import session_ends

        if self._watch is None:
            self._watch = session_ends.Watch()
        return [(name, done) for name, done in session_ends.look(self._context, self._watch)]

    def capture_idle(self) -> list[str]:
        """Capture sessions whose policy asks for it after this much idle time; return their names.

        No process watches sessions: call this now and then, or run `holdfast autosnap`.
        """

        return autosnapshot.look(self._context)
