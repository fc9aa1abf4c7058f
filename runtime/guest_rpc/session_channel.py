"""The channel to a session's supervisor: connections that can be lost, and the meaning of their loss."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.errors import GuestDisconnected
from holdfast.runtime.guest_rpc import guest_client
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.sessions import health
from holdfast.runtime.store import timelines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest.wire.protocol import Frame
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.policy import Policy
    from holdfast.runtime.store.rows import SessionRow


POLICY_SECONDS = 2.0
"""The longest time for which a policy changed by another process can remain unknown."""


class SessionChannel:
    """The channel to the session of `row`; it holds no connection. `became` is called with a newer row."""

    def __init__(
        self,
        context: Context,
        row: Callable[[], SessionRow],
        became: Callable[[SessionRow], object] = lambda _: None,
    ) -> None:
        self._context = context
        self._row = row
        self._became = became
        self._policy: Policy | None = None
        self._looked = time.monotonic()

    @property
    def context(self) -> Context:
        """The context of the session's home."""
        return self._context

    @property
    def row(self) -> SessionRow:
        """The session's row in the store."""
        return self._context.session_row(self._row().id)

    @property
    def known(self) -> SessionRow:
        """The row as its handle last read it."""
        return self._row()

    def fresh(self) -> SessionRow:
        """Return the current row of a session whose container runs; raises as `health.check` does."""
        health.check(self._context, self.known.id)
        return self.row

    def awake(self) -> SessionChannel:
        """Wake the session if it sleeps, and return this channel: for calls that use the session.

        Raises:
            HoldfastError: it could not be woken.
        """
        row = self.known
        # The folder is removed when a session is suspended: a look at it takes microseconds.
        if row.state == "running" and os.access(self._context.home.shared_folder(row.id), os.F_OK):
            return self
        now = self.row
        if now.state == "suspended":
            self._wake()
        elif now.state != row.state:
            self._became(now)
        return self

    def begins(self) -> SessionChannel:
        """Count a command that is about to begin, wake the session if it sleeps, and return this channel.

        Raises:
            QuotaReached: the home, or the caller, has begun too many.
            HoldfastError: it could not be woken.
        """
        home = self._context.home
        if os.access(home.below("quota.json"), os.F_OK):
            from holdfast.runtime.store import quotas  # most homes do not have a quota

            quotas.count_command(home.place, self._context.user)
        return self.awake()

    def _wake(self) -> None:
        if (waker := self._context.waker) is not None:
            self._became(waker(self._context, self.known.id))

    def captures(self) -> bool:
        """Check whether the session is captured automatically, as of the last seconds."""
        fresh = self._policy is None and time.monotonic() - self._looked <= POLICY_SECONDS
        if fresh and self.known.details.policy is None:
            return False  # for most sessions, and without loading what reads a policy
        return self.policy().captures

    def policy(self) -> Policy:
        """Return when the session is captured automatically, as of the last seconds."""
        from holdfast.runtime.store.policy import Policy

        now = time.monotonic()
        if now - self._looked > POLICY_SECONDS:
            self._looked = now
            self._policy = Policy.of(self.row.details)
        elif self._policy is None:
            self._policy = Policy.of(self.known.details)
        return self._policy

    def follow(self, policy: Policy) -> None:
        """Note that the policy was changed through this channel."""
        self._policy, self._looked = policy, time.monotonic()

    def client(self) -> GuestClient:
        """Return a client for a session that is recorded as running; raises as `health.check_usable` does."""
        row = self._row()
        health.check_usable(self._context, row)
        actor, reason = self._context.actor, self._context.reason
        return GuestClient(self._context.home.shared_folder(row.id), actor, reason, self._lives)

    def _lives(self, unanswered: float) -> bool:
        """Check whether a supervisor that has been silent answers; raise if it is known why it does not.

        `unanswered` is the number of seconds for which it has not answered such checks.
        """
        if GuestClient(self._context.home.shared_folder(self._row().id)).answers(health.GLANCE):
            return True
        health.check_silent(self._context, self._row().id, unanswered)
        return False

    def reconnection(self, *, wakes: bool = False) -> Reconnection:
        """Return the reconnection of a call that can be repeated until it ends or the session does.

        `wakes`: it uses the session, and wakes it if it falls asleep before it has taken the call.
        """
        return Reconnection(
            lambda: health.check(self._context, self._row().id),
            lambda: timelines.rewound_at(self.row),
            lambda: health.is_held(self._context, self._row().id),
            self._wake if wakes else None,
        )

    def request(
        self, op: str, payload: bytes = b"", *, slow: bool = False, uses: bool = False, **args: Any
    ) -> Frame:
        """Send one request that is not repeated: typing twice is worse than not typing.

        `slow`: its answer comes when a program has started, which has a limit of its own in the session.
        `uses`: it is a use of the session, and wakes it.
        """
        client = (self.awake() if uses else self).client()
        with self.explained(), self.reconnection(wakes=uses).run(client.connect) as connection:
            if slow:
                connection.socket.settimeout(guest_client.WHOLE_SECONDS)
            return connection.ask(op, payload, **{**client.who, **args})

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Explain a lost connection by the end of the session, if that is the cause."""
        try:
            yield
        except GuestDisconnected:
            health.check(self._context, self._row().id)
            raise
