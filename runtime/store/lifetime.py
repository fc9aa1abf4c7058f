"""The lifetime of a session: its end, the action at its end, and the idle time after which it sleeps.

Kept in the session's details under `lifetime`, as a table of differences from the defaults; sandboxes of
earlier versions have theirs among the facts of the E2B wire. Decisions are pure and get the time from their
caller; `change` is the only way to write. It does not know how an end is carried out.
"""

from __future__ import annotations

import time

from holdfast.base.value_classes import dataclass, replace
from holdfast.errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.runtime.store.row_details import SessionDetails
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store

DETAIL = "lifetime"
"""Its key among the details of a session."""
THEN = ("suspend", "remove")
SHORTEST_IDLE = 10.0
"""Seconds; a session that sleeps sooner would do so between two commands of one caller."""
WARNING_SECONDS = 300.0
"""How long before an end its warning comes, or a tenth of the life if that is shorter."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a session ends, and when it sleeps.

    Attributes:
        life: seconds that it lives, and lives again when it is renewed or wakes after its end; None: no end.
        then: the action at the end: `suspend` (with its processes) or `remove`.
        idle: after this many seconds without use it sleeps: it is suspended, and wakes on use.
        ends_at: the end, in seconds since 1970; None if no clock runs.
        asleep: why it sleeps, `life` or `idle`; empty if it runs, or if a caller suspended it.
        keeps_memory: its processes continue after its end.
        files_only: its last suspension ended them.
        wakes: the next use wakes it if it sleeps.
        ended: it is being removed.
        warned_of: the end that was announced.
        used_at: when it was last used in a way that its journal does not record.
        trouble: the code of the error because of which it could not be ended or put to sleep.
        began_at: since when it runs, where a quota limits that.
    """

    life: float | None = None
    then: str = "suspend"
    idle: float | None = None
    ends_at: float | None = None
    asleep: str = ""
    keeps_memory: bool = True
    files_only: bool = False
    wakes: bool = True
    ended: bool = False
    warned_of: float | None = None
    used_at: float = 0.0
    trouble: str = ""
    began_at: float = 0.0

    @classmethod
    def of(cls, details: SessionDetails) -> Lifetime:
        """Return the lifetime in the details of a session: without end and sleep if there is none."""
        return cls.kept(details.get(DETAIL), details.get("sandbox"))

    @classmethod
    def kept(cls, value: object, sandbox: object = None) -> Lifetime:
        """Return the lifetime in a detail; fields that cannot be read have their defaults."""
        if isinstance(value, dict):
            checked = {name: value[name] for name, fits in _FIELDS.items() if fits(value.get(name))}
            return cls(**checked)
        if isinstance(sandbox, dict) and "seconds" in sandbox:
            return _of_sandbox(sandbox)
        return cls()

    def as_dict(self) -> dict[str, Any]:
        """Return the differences from the defaults, to be kept."""
        plain = Lifetime()
        return {name: value for name in _FIELDS if (value := getattr(self, name)) != getattr(plain, name)}

    def shown(self, state: str) -> dict[str, Any]:
        """Return the fields for programs, of a session in this state."""
        return {
            "life": self.life,
            "then": self.then,
            "idle": self.idle,
            "ends_at": self.ends_at,
            "asleep": self.asleep or None if state == "suspended" else None,
            "trouble": self.trouble or None,
        }

    @property
    def sleeps(self) -> bool:
        """Whether a suspended session with it sleeps, and wakes on use."""
        return bool(self.asleep) and self.wakes and not self.ended

    def given(self, life: float | None, now: float, *, longer: bool = False) -> Lifetime:
        """Return the lifetime with an end `life` seconds from `now`; with `longer`, not before the present
        end."""
        end = None if life is None else now + life
        if longer and end is not None and self.ends_at is not None:
            end = max(end, self.ends_at)
        return replace(self, life=life, ends_at=end, trouble="")

    def left(self, now: float) -> float | None:
        """Return the seconds until the end; None if no clock runs."""
        return None if self.ends_at is None else max(0.0, self.ends_at - now)

    def suspended(self, why: str = "", *, memory: bool = True) -> Lifetime:
        """Return the lifetime for a session that is suspended: its clock stops.

        The clock continues if it sleeps because it was idle, and is to be removed at its end.
        """
        continues = why == "idle" and self.then == "remove"
        end = self.ends_at if continues else None
        return replace(self, asleep=why, files_only=not memory, ends_at=end, trouble="")

    def resumed(self, now: float) -> Lifetime:
        """Return the lifetime for a session that runs again: a whole life, unless its clock has continued."""
        end = self.ends_at
        if end is None and self.life is not None:
            end = now + self.life
        return replace(self, asleep="", files_only=False, ends_at=end, used_at=now, trouble="", began_at=0.0)

    def begun_again(self, now: float) -> Lifetime:
        """Return the lifetime for a session that comes back after it was removed: a whole life."""
        return replace(self, ended=False, ends_at=None).resumed(now)

    def due(self, state: str, now: float) -> bool:
        """Return whether a session in this state is to be ended now."""
        if self.ended:
            return state in ("running", "dead", "suspended")
        if self.ends_at is None or self.ends_at > now:
            return False
        # What can be saved of a dead one that was not to be removed is for its owner.
        return state == "running" or (
            self.then == "remove" and (state == "dead" or self._clock_continues(state))
        )

    def warns(self, state: str, now: float) -> bool:
        """Return whether its end is near and not yet announced."""
        if self.ends_at is None or self.life is None or state != "running" or self.ended:
            return False
        return self.ends_at != self.warned_of and self._warning_at <= now < self.ends_at

    def next_look(self, state: str, now: float) -> float | None:
        """Return the seconds until its clock makes something due; None if nothing is."""
        if self.ends_at is None or not (state == "running" or self._clock_continues(state)):
            return None
        times = (self._warning_at, self.ends_at) if state == "running" else (self.ends_at,)
        return min((each - now for each in times if each > now), default=None)

    def idle_from(self, state: str) -> float | None:
        """Return the idle seconds after which a session in this state sleeps; None if it does not."""
        return self.idle if state == "running" and not self.ended else None

    @property
    def _warning_at(self) -> float:
        return (self.ends_at or 0.0) - min(WARNING_SECONDS, (self.life or 0.0) / 10)

    def _clock_continues(self, state: str) -> bool:
        return state == "suspended" and self.asleep == "idle" and self.then == "remove"


def changed(before: Lifetime, now: float, choices: Mapping[str, Any]) -> Lifetime:
    """Return a lifetime after a caller's choices of `life`, `then` and `idle`.

    A life, the same again as well, begins now. Durations can be texts (`30m`, `2h`); None is the default.

    Raises:
        InvalidArgument: one of them is not valid.
    """
    from holdfast.runtime.store import policy

    for name in choices:
        if name not in ("life", "then", "idle"):
            raise InvalidArgument(
                f"cannot set the lifetime: it does not have '{name[:40]}'", hint="it has life, then and idle"
            )
    found = before
    if "then" in choices:
        then = choices["then"] or "suspend"
        if then not in THEN:
            raise InvalidArgument("cannot set then: it must be suspend or remove")
        found = replace(found, then=then)
    if "idle" in choices:
        idle = None if choices["idle"] is None else policy.seconds(choices["idle"], "idle")
        if idle is not None and idle < SHORTEST_IDLE:
            raise InvalidArgument(f"cannot set idle: the shortest time is {SHORTEST_IDLE:g} s")
        found = replace(found, idle=idle, trouble="")
    if "life" in choices:
        life = None if choices["life"] is None else policy.seconds(choices["life"], "life")
        found = found.given(life, now)
    if found.life is None and choices.get("then") is not None and "life" not in choices:
        raise InvalidArgument("cannot set then: the session does not end", hint="give it a life as well")
    return found


def change(store: Store, session_id: str, how: Callable[[Lifetime], Lifetime]) -> Lifetime:
    """Change the lifetime of a session in one step, within the quota of its home, and return it.

    A removed session keeps nothing.
    """
    row = store.find_session(session_id)
    sandbox = None if row is None else row.details.get("sandbox")
    runs = row is not None and row.state in ("creating", "running")
    user = "" if row is None else _user(row.details)
    found: list[Lifetime] = []

    def kept(value: object) -> dict[str, Any]:
        chosen = how(Lifetime.kept(value, sandbox))
        found[:] = [limited(store.database.folder, chosen, user) if runs else chosen]
        return found[0].as_dict()

    store.change_detail(session_id, DETAIL, kept)
    return found[0] if found else Lifetime()


def _user(details: SessionDetails) -> str:
    """Return the user who made a session."""
    return str(details.get("by") or "")


def limited(folder: str, found: Lifetime, user: str = "") -> Lifetime:
    """Return a lifetime of a running session within the quotas of its home, in a folder, and of its user.

    Raises:
        StoreError: the quota cannot be read.
    """
    from holdfast.runtime.store import quotas

    quota = quotas.read(folder)
    return within(found, quota.least("life", user), quota.least("idle", user), time.time())


def limited_details(folder: str, details: SessionDetails) -> SessionDetails:
    """Return the details of a session that is about to run, with its lifetime within that quota."""
    before = Lifetime.of(details)
    kept = limited(folder, before, _user(details)).as_dict()
    return details if kept == before.as_dict() else details.plus(lifetime=kept)


def within(found: Lifetime, life: float | None, idle: float | None, now: float) -> Lifetime:
    """Return a lifetime of a running session within limits of its life and of its time without use.

    Renewed lives do not add up: the limit begins when the session was started or woken.
    """
    if idle is not None and (found.idle is None or found.idle > idle):
        found = replace(found, idle=idle)
    if life is None or found.ended:
        return found
    began = found.began_at or now
    last = began + life
    end = last if found.ends_at is None else min(found.ends_at, last)
    chosen = life if found.life is None else min(found.life, life)
    return replace(found, life=chosen, ends_at=end, began_at=began)


def asleep(row: SessionRow) -> str:
    """Return why a session sleeps and would wake on use; empty if it does not sleep."""
    found = Lifetime.of(row.details) if row.state == "suspended" else None
    return found.asleep if found is not None and found.sleeps else ""


def lines(found: Lifetime, state: str, now: float) -> list[str]:
    """Return a lifetime of a session in this state as lines for people."""
    from holdfast.runtime.store.policy import span

    left = found.left(now)
    said: list[str] = []
    if left is not None:
        what = "removed" if found.then == "remove" else "suspended"
        said.append(f"is {what} in {span(round(left))}, after a life of {span(found.life or 0.0)}")
    elif found.life is not None:
        said.append(f"lives {span(found.life)} again when it is resumed")
    else:
        said.append("does not end")
    if found.idle:
        said.append(f"sleeps after {span(found.idle)} without use, and wakes on use")
    if why := found.shown(state)["asleep"]:
        said.append("sleeps: its life was over" if why == "life" else "sleeps: it was not used")
    if found.trouble:
        said.append(f"could not be ended or put to sleep: {found.trouble}")
    return said


def _of_sandbox(facts: Mapping[str, Any]) -> Lifetime:
    """Return the lifetime in the facts that earlier versions kept of a sandbox."""
    seconds, end = facts.get("seconds"), facts.get("ends_at")
    return Lifetime(
        life=seconds if _number(seconds) and seconds else 300.0,
        then="suspend" if facts.get("at_end") == "pause" else "remove",
        ends_at=end if _number(end) else None,
        keeps_memory=facts.get("keeps_memory") is not False,
        files_only=facts.get("files_only") is True,
        wakes=facts.get("auto_resume") is True,
        ended=facts.get("ended") is True,
    )


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12


def _flag(value: object) -> bool:
    return isinstance(value, bool)


_FIELDS: Mapping[str, Callable[[object], bool]] = {
    "life": _number,
    "then": lambda value: value in THEN,
    "idle": _number,
    "ends_at": _number,
    "asleep": lambda value: value in ("life", "idle"),
    "keeps_memory": _flag,
    "files_only": _flag,
    "wakes": _flag,
    "ended": _flag,
    "warned_of": _number,
    "used_at": _number,
    "trouble": lambda value: isinstance(value, str) and len(value) <= 100,
    "began_at": _number,
}
"""Checks of the fields as they are kept; a value that fails its check counts as missing."""
