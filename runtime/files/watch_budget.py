"""The memory budget of all watches of a process: a server has many, for sessions that control their size.

Each watch has a share, which counts from its beginning to its end. Shares are of sessions, so that one with
very many files leaves room for the others. Any thread may use them.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Self

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from types import TracebackType

MOST_BYTES, MOST_BYTES_OF_SESSION = 512 << 20, 128 << 20
"""Memory of all watches: some 900 000 files, and 230 000 of one session."""
MOST_BY_SANDBOX, MOST_OF_SANDBOX = 256, 8
"""Watches for holders of the tokens of single sandboxes, and of one; a session allows 16."""


class TooManyWatches(HoldfastError):
    """The limit of watches, or of their memory, is reached."""

    code = "too_many_watches"


class WatchShare:
    """The share of one watch; to be closed."""

    def __init__(self, budget: WatchBudget, session: str, *, by_sandbox: bool) -> None:
        self._budget, self.session, self.by_sandbox = budget, session, by_sandbox
        self.bytes = 0
        self.closed = False

    def hold(self, size: int) -> None:
        """Note that the watch holds `size` bytes now.

        Raises:
            TooManyWatches: that is too much, and is not noted.
        """
        self._budget.hold(self, size)

    def close(self) -> None:
        """Return the share; repeated calls change nothing."""
        self._budget.end(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class WatchBudget:
    """The budget of one process."""

    def __init__(self, most: int = MOST_BYTES, most_of_session: int = MOST_BYTES_OF_SESSION) -> None:
        self._most, self._most_of_session = most, most_of_session
        self._lock = threading.Lock()
        self._bytes: Counter[str] = Counter()
        self._by_sandbox: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether the limit for holders of a single sandbox's token is reached."""
        with self._lock:
            return self._by_sandbox.total() >= MOST_BY_SANDBOX

    @property
    def bytes(self) -> int:
        """The bytes that all watches hold now."""
        with self._lock:
            return self._bytes.total()

    def begin(self, session: str, *, by_sandbox: bool = False) -> WatchShare:
        """Return the share of a new watch. `by_sandbox`: for the holder of the token of a single sandbox.

        Raises:
            TooManyWatches: there are too many of those.
        """
        with self._lock:
            if by_sandbox:
                if (
                    self._by_sandbox[session] >= MOST_OF_SANDBOX
                    or self._by_sandbox.total() >= MOST_BY_SANDBOX
                ):
                    raise TooManyWatches(
                        f"cannot watch more: there are {MOST_OF_SANDBOX} watches of the sandbox, or "
                        f"{MOST_BY_SANDBOX} in all",
                        hint="end those that are not needed",
                    )
                self._by_sandbox[session] += 1
            return WatchShare(self, session, by_sandbox=by_sandbox)

    def hold(self, share: WatchShare, size: int) -> None:
        """Record the present size of a watch; raises as its own `hold` does."""
        with self._lock:
            more = size - share.bytes
            if share.closed:
                return
            if more > 0 and self._bytes[share.session] + more > self._most_of_session:
                raise TooManyWatches(
                    f"cannot watch these files: the watches of one session can hold at most "
                    f"{self._most_of_session >> 20} MiB",
                    hint="watch a part of them, or end other watches of the session",
                )
            if more > 0 and self._bytes.total() + more > self._most:
                raise TooManyWatches(
                    f"cannot watch these files: all watches can hold at most {self._most >> 20} MiB",
                    hint="watch a part of them, or end other watches",
                )
            share.bytes = size
            self._bytes[share.session] += more

    def end(self, share: WatchShare) -> None:
        """Give a share back."""
        with self._lock:
            if share.closed:
                return
            share.closed = True
            self._bytes[share.session] -= share.bytes
            if not self._bytes[share.session]:
                del self._bytes[share.session]
            if share.by_sandbox:
                self._by_sandbox[share.session] -= 1
                if not self._by_sandbox[share.session]:
                    del self._by_sandbox[share.session]


SERVED = WatchBudget()
"""The budget of the watches that this process serves to others."""
