"""Retention in a home, as its controller offers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.base import actors
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.capture import autosnapshot
from holdfast.runtime.retention import prune
from holdfast.runtime.store import lifetime, quotas

if TYPE_CHECKING:
    from holdfast.runtime.lifetimes.session_ends import Watch
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.retention.garbage import Garbage
    from holdfast.runtime.store.quotas import Quota, Quotas, QuotaUsage


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
        return quotas.read(self._context.home.place).home

    @limits.setter
    def limits(self, limits: Quota) -> None:
        self._keep(replace(self._kept(), home=limits))

    @property
    def user_limits(self) -> Mapping[str, Quota]:
        """The quotas of users, by actors without a run, such as `agent:ci`; `each` is for all others."""
        return quotas.read(self._context.home.place).users

    def limit_user(self, user: str, limits: Quota) -> None:
        """Set the quota of a user, in addition to the quota of the home.

        Raises:
            InvalidArgument: it does not have the form of a user.
        """
        if user != quotas.EACH and actors.checked(user).partition("/")[0] != user:
            raise InvalidArgument(
                f"cannot set the quota of '{plain(user, 80)}': it names a run",
                hint="for example agent:ci, person:ada, or each",
            )
        before = self._kept()
        self._keep(replace(before, users={**before.users, user: limits}))

    def _kept(self) -> Quotas:
        try:
            return quotas.read(self._context.home.place)
        except StoreError:  # a file that cannot be read is rewritten
            return quotas.Quotas()

    def _keep(self, kept: Quotas) -> None:
        quotas.write(self._context.home.place, kept)
        if not any(each.life or each.idle for each in (kept.home, *kept.users.values())):
            return
        for row in self._context.store.sessions():
            if row.state == "running":
                lifetime.change(self._context.store, row.id, lambda kept: kept)

    @property
    def usage(self) -> QuotaUsage:
        """The use that these limits are for."""
        return self._context.store.usage()

    def usage_of(self, user: str) -> QuotaUsage:
        """Return the use of one user."""
        return self._context.store.usage(user)

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
