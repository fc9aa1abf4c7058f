"""How long a caller waits for work that continues without it; a different thread can end the wait.

It knows neither commands nor programs. On the path of `exec`: it does not load `threading`, nor need a
lock, because its attributes are set in an order in which either thread finds the other's work.
"""

from __future__ import annotations

import time

from holdfast.runtime.guest_rpc import call_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class HangsUp(Protocol):
        """A connection that a different thread can end."""

        def hang_up(self) -> None:
            """End it."""


class Patience:
    """The patience of one call: a number of seconds, or endless; `end` ends it now, from any thread.

    When it is over, the call returns a result that says that the command or program still runs.

    Args:
        seconds: how long the caller waits, from 0 on; endlessly if None.

    Raises:
        InvalidArgument: it is no such number.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = call_arguments.patience(seconds, "patience")
        self._connection: HangsUp | None = None
        self.until: float | None = None
        """When it is over, by the monotonic clock; None while that is unknown."""
        self.ended = False
        """True once `end` was called."""

    @classmethod
    def of(cls, value: float | Patience | None) -> Patience:
        """Return a caller's patience, which can be a number of seconds."""
        return value if isinstance(value, Patience) else cls(value)

    def end(self) -> None:
        """Let the call return now. The followed work continues."""
        self.ended = True
        if (connection := self._connection) is not None:
            connection.hang_up()

    def begin(self) -> None:
        """Start counting the seconds, unless they are counted already."""
        if self.until is None and self._seconds is not None:
            self.until = time.monotonic() + self._seconds

    def left(self) -> float | None:
        """Return the remaining seconds of the caller's wait; None without a limit."""
        if self.until is None:
            return self._seconds
        return max(0.0, self.until - time.monotonic())

    def limit(self, seconds: float) -> None:
        """Let the wait end in this many seconds, if no other limit is known."""
        if self.until is None:
            self.until = time.monotonic() + seconds

    def hold(self, connection: HangsUp) -> None:
        """Set the connection that is waited for; it is hung up immediately if the patience has ended."""
        self._connection = connection
        if self.ended:
            connection.hang_up()

    @property
    def over(self) -> bool:
        """True if the caller no longer waits."""
        return self.ended or (self.until is not None and time.monotonic() >= self.until)
