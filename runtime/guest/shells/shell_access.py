"""The people and agents at a shell: attached terminals, the lease among them, and the resulting size.

The rules of the lease are in `lease.py`. This module keeps its connections, its clock, its entries in the
journal and its waiters. Input and output pass by elsewhere.

The size of the shell's terminal is the writers': it follows their terminal when they attach, change its
size or type. Viewers never change it, even where they could type now. When the last writer leaves, it
reverts to the size it had without them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.records.waiters import Waiters
from holdfast.runtime.guest.shells.lease import Change, LeaseHeld, ShellLease
from holdfast.runtime.guest.shells.terminal import TerminalSize
from holdfast.runtime.guest.wire.connection import RequestRefused

PERSON = "person:"
TERM_SECONDS = 15 * 60.0
"""Duration of a lease that no connection keeps and for which no time was given."""

MAX_LEFT = 64
"""Lost terminals whose typed byte counts are remembered, in case they come back."""

Note = Callable[..., object]


@dataclass(slots=True, eq=False)
class Seat:
    """One attached terminal. `token` is its client's and survives reconnections."""

    token: str
    actor: str
    size: TerminalSize
    view: bool
    leads: bool = False
    """True if the terminal's size follows this one's: its user can write, and attached or typed so."""
    typed: int = 0
    """The number of bytes its client has typed, over all its connections."""


class ShellAccess:
    """The people and agents at one shell."""

    def __init__(
        self, shell: str, size: TerminalSize, resize: Callable[[TerminalSize], None], note: Note
    ) -> None:
        """Create the access; `resize` sets the terminal's size, `note(kind, **fields)` writes to the
        journal.
        """
        self.lease = ShellLease()
        self.seats: list[Seat] = []
        self._left: dict[str, int] = {}
        self._shell = shell
        self._base = size
        self._size = size
        self._resize = resize
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiters = Waiters()
        self._skew = time.time() - self._loop.time()
        self._arriving = False
        """True while programs of this copy may not run yet. A program that is sent a size change then does
        not leave its call, so the size waits, even if a terminal that was lost with the capture is removed
        meanwhile.
        """

    def describe(self) -> dict[str, Any]:
        """Return the holder of the lease and the attached terminals, for clients."""
        lease = self.lease
        return {
            "lease": lease.holder
            and {
                "holder": lease.holder,
                "since": self._unix(lease.since),
                "active": self._unix(lease.active),
                "until": self._unix(lease.until),
            },
            "attached": [
                {
                    "actor": seat.actor,
                    "rows": seat.size.rows,
                    "cols": seat.size.columns,
                    "writes": self.writes(seat),
                }
                for seat in self.seats
            ],
        }

    def writes(self, seat: Seat) -> bool:
        """Return whether this terminal's user can type into the shell."""
        return not seat.view and self.lease.allows(seat.actor)

    # Permissions.

    def require(self, actor: str, what: str) -> None:
        """Note that an actor is about to use the shell.

        Raises:
            Refusal: another actor holds the lease.
        """
        try:
            self.lease.require(actor)
        except LeaseHeld as held:
            raise self._refusal(held, what) from None
        self.lease.used(actor, self._loop.time())

    async def admitted(self, actor: str, what: str, patience: float | None) -> None:
        """Wait up to `patience` seconds for the lease, then do the same as `require`."""
        if patience is not None and not self.lease.allows(actor):
            try:
                async with asyncio.timeout(patience):
                    while not self.lease.allows(actor):
                        await self.changed()
            except TimeoutError:
                pass
        self.require(actor, what)

    async def changed(self) -> None:
        """Wait until the lease or the size changes."""
        await self._waiters.wait()

    # Attached terminals.

    @contextmanager
    def seated(self, seat: Seat, *, force: bool) -> Iterator[None]:
        """Keep a terminal attached; a person's takes the lease if it is free."""
        self.seats.append(seat)
        seat.typed = self._left.pop(seat.token, 0)
        lost = True
        try:
            if (
                not seat.view
                and (force or seat.actor.startswith(PERSON))
                and (force or self.lease.allows(seat.actor))
            ):
                self._note_changes(
                    self.lease.take(seat.actor, self._loop.time(), token=seat.token, force=force)
                )
            self._note("attached", shell=self._shell, actor=seat.actor, view=seat.view)
            self._adopt(seat)
            yield
            lost = False
        finally:
            self.seats.remove(seat)
            if lost and seat.typed:
                self._left[seat.token] = seat.typed
                while len(self._left) > MAX_LEFT:
                    del self._left[next(iter(self._left))]
            self._note("detached", shell=self._shell, actor=seat.actor, lost=lost)
            self._note_changes(self.lease.left(seat.token, lost=lost))
            self._settle()

    def typing(self, seat: Seat) -> bool:
        """Note typing at a terminal; return False if not allowed. A person takes a free lease by typing."""
        if not self.writes(seat):
            return False
        now = self._loop.time()
        if self.lease.holder is None and seat.actor.startswith(PERSON):
            self._note_changes(self.lease.take(seat.actor, now, token=seat.token))
        self.lease.used(seat.actor, now)
        self._adopt(seat)
        return True

    def taken(self, seat: Seat) -> None:
        """Let the user of a terminal take the lease from any holder, until they leave. Viewers do not."""
        if not seat.view:
            now = self._loop.time()
            self._note_changes(self.lease.take(seat.actor, now, token=seat.token, force=True))
            self._adopt(seat)

    def resized(self, seat: Seat, size: TerminalSize) -> None:
        """Note the new size of an attached terminal."""
        seat.size = size
        if seat.leads:
            self._adopt(seat)

    def set_size(self, size: TerminalSize) -> None:
        """Set the size for a caller that is not attached: it holds while no writer is attached."""
        self._base = size
        self._settle()

    # The lease without a terminal.

    def take(self, actor: str, *, seconds: float | None, force: bool) -> None:
        """Take the lease for a time."""
        now = self._loop.time()
        try:
            self._note_changes(
                self.lease.take(actor, now, until=now + (seconds or TERM_SECONDS), force=force)
            )
        except LeaseHeld as held:
            raise self._refusal(held, "take the lease") from None

    def give(self, actor: str, to: str, *, seconds: float | None) -> None:
        """Hand the lease over."""
        now = self._loop.time()
        tokens = {seat.token for seat in self.seats if seat.actor == to and not seat.view}
        until = now + (seconds or TERM_SECONDS)
        try:
            self._note_changes(self.lease.give(actor, to, now, until=until, tokens=tokens))
        except LeaseHeld as held:
            raise self._refusal(held, "hand over the lease") from None

    def give_back(self, actor: str) -> None:
        """Return the lease."""
        try:
            self._note_changes(self.lease.give_back(actor))
        except LeaseHeld as held:
            raise self._refusal(held, "return the lease") from None

    # Captures.

    def cut(self) -> None:
        """Cut all connections for a capture."""
        self.lease.cut()

    def woken(self, *, copy: bool) -> None:
        """Resume after a capture; in a copy the lease is free.

        In a copy, the size waits for `arrived`.
        """
        self._skew = time.time() - self._loop.time()
        self._note_changes(self.lease.woken(self._loop.time(), copy=copy))
        self._arriving = copy
        self._settle()

    def arrived(self) -> None:
        """Note that all programs of a copy run."""
        self._arriving = False
        self._settle()

    def _adopt(self, seat: Seat) -> None:
        if self.writes(seat):
            seat.leads = True
            self._become(seat.size)

    def _settle(self) -> None:
        """Take the size of a remaining writer; without any, nor one about to come back, the original size."""
        if self._arriving:
            return
        writers = [seat for seat in self.seats if seat.leads]
        if any(seat.size == self._size for seat in writers):
            return
        if writers:
            self._become(writers[-1].size)
        elif self.lease.holder is None:
            self._become(self._base)

    def _become(self, size: TerminalSize) -> None:
        if size != self._size:
            self._size = size
            self._resize(size)
            self._note("resized", shell=self._shell, rows=size.rows, cols=size.columns)
            self._waiters.wake()

    def _note_changes(self, changes: list[Change]) -> None:
        for change in changes:
            self._note(
                "lease",
                shell=self._shell,
                action=str(change.action),
                holder=change.holder,
                before=change.before,
            )
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if (wake_at := self.lease.wake_at) is not None:
            self._timer = self._loop.call_at(wake_at, self._tick)
        if changes:
            for seat in self.seats:
                seat.leads = seat.leads and self.writes(seat)
            self._waiters.wake()

    def _tick(self) -> None:
        self._timer = None
        self._note_changes(self.lease.tick(self._loop.time()))
        self._settle()

    def _refusal(self, held: LeaseHeld, what: str) -> RequestRefused:
        since = time.strftime("%H:%M:%S", time.gmtime(self._unix(held.since)))
        return RequestRefused("held", f"cannot {what}: the shell is held by {held.holder} since {since} UTC")

    def _unix(self, moment: float | None) -> float | None:
        return None if moment is None else round(moment + self._skew, 3)
