"""The rules of a shell's write lease, the right to type into it.

A lease has at most one holder, an actor in text form such as `person:alice`. It is kept by the connections
of that actor that asked for it, or until a time; after the last of these it is free. Pure: the time comes
in as a number, changes go out as values. Connections, clocks and the journal belong to `shell_access.py`.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.base.value_classes import dataclass, field

GRACE = 15.0
"""Seconds in which a holder cut off by a capture can come back before others can take the lease."""


class LeaseChange(StrEnum):
    """The kind of a change of the lease."""

    TAKE = "take"
    GIVE = "give"
    RETURN = "return"
    LOST = "lost"
    EXPIRE = "expire"
    FORCE = "force"


@dataclass(frozen=True, slots=True)
class Change:
    """One step in the lease's life; `holder` is the holder after it, `before` the previous one."""

    action: LeaseChange
    holder: str | None
    before: str | None


class LeaseHeld(Exception):
    """Another actor holds the lease."""

    def __init__(self, holder: str, since: float) -> None:
        super().__init__(holder)
        self.holder = holder
        self.since = since


@dataclass(slots=True)
class _Hold:
    actor: str
    since: float
    active: float
    until: float | None = None
    tokens: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    grace: float | None = None


class ShellLease:
    """The lease of one shell. Times are seconds of one clock of the caller's choice."""

    def __init__(self) -> None:
        self._hold: _Hold | None = None

    @property
    def holder(self) -> str | None:
        """The actor who holds it."""
        return self._hold.actor if self._hold else None

    @property
    def since(self) -> float | None:
        """The time at which the holder got it."""
        return self._hold.since if self._hold else None

    @property
    def active(self) -> float | None:
        """The time at which the holder last typed or ran something, or got it."""
        return self._hold.active if self._hold else None

    @property
    def until(self) -> float | None:
        """The time at which it ends, unless a connection keeps it."""
        return self._hold.until if self._hold and not self._hold.tokens else None

    def allows(self, actor: str) -> bool:
        """Return whether this actor can type and run commands: no other actor holds the lease."""
        return self._hold is None or self._hold.actor == actor

    def require(self, actor: str) -> None:
        """Check that no other actor holds the lease.

        Raises:
            Held: another actor does.
        """
        if self._hold and self._hold.actor != actor:
            raise LeaseHeld(self._hold.actor, self._hold.since)

    def used(self, actor: str, now: float) -> None:
        """Note that the actor typed or ran something."""
        if self._hold and self._hold.actor == actor:
            self._hold.active = now

    def take(
        self,
        actor: str,
        now: float,
        *,
        token: str | None = None,
        until: float | None = None,
        force: bool = False,
    ) -> list[Change]:
        """Give it to an actor, kept by a connection (`token`) or until a time.

        Its present holder keeps it: by one more connection, or until the later time.

        Raises:
            Held: another actor holds it, and `force` is not set.
        """
        before = self.holder
        if self._hold is None or self._hold.actor != actor:
            if self._hold is not None and not force:
                self.require(actor)
            self._hold = _Hold(actor, now, now)
        hold = self._hold
        if token is not None:
            hold.tokens.add(token)
            hold.cut.discard(token)
        if until is not None:
            hold.until = until if hold.until is None else max(hold.until, until)
        if before == actor:
            return []
        return [Change(LeaseChange.TAKE if before is None else LeaseChange.FORCE, actor, before)]

    def give(self, actor: str, to: str, now: float, *, until: float, tokens: set[str]) -> list[Change]:
        """Hand it over: kept by the connections `to` has (`tokens`), or until a time if it has none."""
        self.require(actor)
        before = self.holder
        if before == to:
            return []
        self._hold = _Hold(to, now, now, None if tokens else until, set(tokens))
        return [Change(LeaseChange.GIVE, to, before)]

    def give_back(self, actor: str) -> list[Change]:
        """Return the lease.

        Raises:
            Held: another actor holds it.
        """
        self.require(actor)
        return self._free(LeaseChange.RETURN)

    def left(self, token: str, *, lost: bool) -> list[Change]:
        """Note that a connection ended, whether its client closed it or it was lost."""
        hold = self._hold
        if hold is None or token not in hold.tokens:
            return []
        hold.tokens.discard(token)
        return [] if self._kept() else self._free(LeaseChange.LOST if lost else LeaseChange.RETURN)

    def cut(self) -> None:
        """Cut every connection for a capture: a holder whose lease depends on one can come back."""
        if self._hold:
            self._hold.cut |= self._hold.tokens
            self._hold.tokens.clear()

    def woken(self, now: float, *, copy: bool) -> list[Change]:
        """Resume after a capture. In a copy the lease is free; else the holder has a moment to come back."""
        hold = self._hold
        if hold is None:
            return []
        if copy:
            return self._free(LeaseChange.LOST)
        if hold.cut:
            hold.grace = now + GRACE
        return []

    @property
    def wake_at(self) -> float | None:
        """The time at which to call `tick` next."""
        hold = self._hold
        times = [time for time in (hold.until, hold.grace) if time is not None] if hold else []
        return min(times, default=None)

    def tick(self, now: float) -> list[Change]:
        """End the expired parts."""
        hold = self._hold
        if hold is None:
            return []
        action = LeaseChange.EXPIRE
        if hold.grace is not None and now >= hold.grace:
            if hold.cut:
                action = LeaseChange.LOST
            hold.grace = None
            hold.cut.clear()
        if hold.until is not None and now >= hold.until:
            hold.until = None
        return [] if self._kept() else self._free(action)

    def _kept(self) -> bool:
        hold = self._hold
        return hold is not None and bool(hold.tokens or hold.cut or hold.until is not None)

    def _free(self, action: LeaseChange) -> list[Change]:
        before, self._hold = self.holder, None
        return [Change(action, None, before)] if before else []
