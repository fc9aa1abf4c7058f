"""When each session of a node is captured, so that a loss costs at most what its policy says.  Pure.

Times are seconds of one clock that only goes forward. A session counts as changed from the moment of its last
copy, as soon as anything in it is seen to differ from that: the age of its oldest change is never estimated
too low. Captures take turns, because each needs processor and network, and have a share of the processors:
beyond it they wait, and a promise is broken and reported rather than a session slowed down.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 0.10
"""The part of all processors that captures can take in the long run."""
LOOKS = 10
"""Looks at a session within the time that its loss can cost."""
LOOK_LEAST, LOOK_MOST = 0.5, 10.0
EARLY = 2.0
"""A capture begins this many times its own length before its promise ends."""
SOONEST = 0.25
"""The part of that time that passes at least before a changed session is captured again."""
AGAIN_LEAST, AGAIN_MOST = 1.0, 30.0
_FIRST = 3.0
"""Seconds that the first capture of a session is thought to take."""


@dataclass(slots=True)
class _Watched:
    loss: float
    safe: float
    changed: bool = False
    look_at: float = 0.0
    took: float = _FIRST
    not_before: float = 0.0
    failures: int = 0
    broken: bool = False

    @property
    def due_at(self) -> float:
        soonest = self.safe + self.loss * SOONEST
        return max(soonest, self.safe + self.loss - EARLY * self.took, self.not_before)


class DurableSchedule:
    """The sessions of a node that have a promise."""

    def __init__(self, processors: float, share: float = SHARE) -> None:
        self._watched: dict[str, _Watched] = {}
        self._rate = max(processors * share, 0.01)
        self._free_at = 0.0

    def keep(self, promises: dict[str, float], now: float) -> None:
        """Watch these sessions, with the seconds that a loss of each can cost, and no others.

        A session that is new here has changed since now at the latest.
        """
        for session in [each for each in self._watched if each not in promises]:
            del self._watched[session]
        for session, loss in promises.items():
            if session in self._watched:
                self._watched[session].loss = loss
            else:
                self._watched[session] = _Watched(loss, safe=now)

    def to_look(self, now: float) -> list[str]:
        """Return the sessions to look at now: those not known to have changed, not too often."""
        return [key for key, each in self._watched.items() if not each.changed and now >= each.look_at]

    def looked(self, session: str, now: float, *, changed: bool) -> None:
        """Note whether a session differs from its copy."""
        each = self._watched.get(session)
        if each is None:
            return
        each.look_at = now + min(max(each.loss / LOOKS, LOOK_LEAST), LOOK_MOST)
        each.changed = changed
        if not changed:
            each.safe = now

    def next(self, now: float) -> str | None:
        """Return the session to capture now, the most urgent one; None if none is due, or it is too early."""
        due = [(each.safe + each.loss, key) for key, each in self._watched.items() if self._is_due(each, now)]
        return min(due)[1] if due and now >= self._free_at else None

    def committed(self, session: str, captured_at: float, now: float, processor: float) -> bool:
        """Note a committed copy of a session as it was at `captured_at`; return whether it ends a breach.

        `processor`: the seconds of processor that it took.
        """
        self._free_at = max(now, self._free_at) + processor / self._rate
        each = self._watched.get(session)
        if each is None:
            return False
        mended = each.broken
        each.took, each.safe, each.failures, each.not_before = (
            max(0.1, now - captured_at),
            captured_at,
            0,
            0.0,
        )
        each.changed, each.look_at, each.broken = False, now, False
        return mended

    def failed(self, session: str, now: float) -> None:
        """Note that a new copy of a session failed: it is tried again, later each time."""
        if each := self._watched.get(session):
            each.failures += 1
            each.not_before = now + min(AGAIN_LEAST * 2 ** (each.failures - 1), AGAIN_MOST)

    def newly_broken(self, now: float) -> list[tuple[str, float]]:
        """Return sessions whose promise has just been broken, with the age of their oldest change."""
        found = []
        for session, each in self._watched.items():
            if each.changed and not each.broken and now - each.safe > each.loss:
                each.broken = True
                found.append((session, now - each.safe))
        return found

    def _is_due(self, each: _Watched, now: float) -> bool:
        return each.changed and now >= each.due_at
