"""The quotas of a home and of its users: how many sessions there are and run at most, how much they take, how
long they live.

Kept in a file beside the database. `check` runs in the transaction that adds a session or lets one run, so
callers at the same time cannot pass it together. `count_command` counts for all processes of the home. The
room of snapshots is not counted here, and no engine is asked. A user is an actor without the run behind its
name; a session is counted for the user who made it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import private_files
from holdfast.base.quantities import gib_text, parse_duration, parse_size
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, QuotaReached, StoreError
from holdfast.runtime.store.shared_rows import QUOTA_FILE

if TYPE_CHECKING:
    from holdfast.runtime.store.statements import Statements

FILE = QUOTA_FILE
RATE_FILE = "quota.rate"
"""The commands that can begin now, and when that was counted: of the home, and then of users by a digest."""
EACH = "each"
"""In place of a user: every one without limits of its own."""
_PLACES = 4096
"""Of users in that file; few share one."""
AGAIN_SECONDS = 10.0
"""When a caller that was refused because of other sessions can ask again."""
_SHAPE = struct.Struct("dd")
_IDLE_LEAST = 10.0
"""Seconds, as for the lifetime of one session."""
_OF_MODEL = 4 << 30
"""The memory of a session whose row does not say."""

# Sessions whose start is under way count: of several, each sees the others.
_RUNNING = (
    "SELECT COUNT(*), COALESCE(SUM(COALESCE(json_extract(options, '$.memory'), ?)), 0), "
    "COALESCE(SUM(COALESCE(json_extract(options, '$.cpus'), ?)), 0) FROM sessions "
    "WHERE (? = '' OR json_extract(details, '$.by') = ?) AND (state IN ('creating', 'running') "
    "OR (state != 'removed' AND id IN "
    "(SELECT session_id FROM operations WHERE kind = 'resume' AND state = 'intent')))"
)
_ALL = (
    "SELECT COUNT(*) FROM sessions WHERE state != 'removed' AND (? = '' OR json_extract(details, '$.by') = ?)"
)


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a home or of a user; None is without limit.

    Attributes:
        running: sessions that run; suspended and sleeping sessions do not.
        memory: bytes that all running ones can use together, by their own limits.
        cpus: processors of all running ones; one without a limit of its own counts as the whole machine.
        sessions: sessions in all.
        disk: bytes of the snapshots of a user's sessions; `retention.prune` has the limit of a home.
        forks: copies in one call.
        life: seconds that a session runs, from its start or its waking; then it is suspended.
        idle: seconds without use after which a session sleeps.
        commands: commands, cells, programs and jobs begun in a second, in the long run.
    """

    running: int | None = None
    memory: int | None = None
    cpus: float | None = None
    sessions: int | None = None
    disk: int | None = None
    forks: int | None = None
    life: float | None = None
    idle: float | None = None
    commands: float | None = None

    def with_texts(self, texts: Mapping[str, str]) -> Quota:
        """Return it with limits as people write them; `none` lifts one.

        Raises:
            InvalidArgument: one is not a limit.
        """
        return replace(self, **{name: _parsed(name, text) for name, text in texts.items()})

    def as_dict(self) -> dict[str, Any]:
        """Return the limits as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """The use that a quota limits: sessions in all, running ones, and the limits of these together."""

    sessions: int
    running: int
    memory: int
    cpus: float

    def as_dict(self) -> dict[str, Any]:
        """Return the use as JSON."""
        return asdict(self)


NAMES = tuple(each.name for each in fields(Quota))
_SIZES, _DURATIONS = frozenset({"memory", "disk"}), frozenset({"life", "idle"})
_FRACTIONS = frozenset({"cpus", "commands", *_DURATIONS})
_EXAMPLES: Mapping[str, str] = {
    "memory": "16g",
    "disk": "20g",
    "life": "8h",
    "idle": "15m",
    "cpus": "4",
    "commands": "20",
}


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quota of a home, and the quotas of its users by their names; `each` is for all others."""

    home: Quota = Quota()
    users: Mapping[str, Quota] = field(default_factory=dict)

    def of(self, user: str) -> Quota:
        """Return the limits of a user, besides the limits of the home."""
        return (self.users.get(user) or self.users.get(EACH) or Quota()) if user else Quota()

    def least(self, name: str, user: str) -> Any:
        """Return the smaller one of a limit of the home and of a user; None if neither has it."""
        found = (getattr(self.home, name), getattr(self.of(user), name))
        return min((each for each in found if each is not None), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        users = {name: each.as_dict() for name, each in self.users.items() if each != Quota()}
        return self.home.as_dict() | ({"users": users} if users else {})


def read(folder: str) -> Quotas:
    """Return the quotas of the home in a folder.

    Raises:
        StoreError: the file cannot be read. An unknown limit does not count as none.
    """
    path = f"{folder}/{FILE}"
    if not os.access(path, os.F_OK):
        return Quotas()
    try:
        found = json.loads(Path(path).read_bytes())
        users = found.pop("users", {})
        return Quotas(_quota(found), {str(name): _quota(each) for name, each in users.items()})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error}", hint="`holdfast quota set` rewrites it") from error


def _quota(found: dict[str, Any]) -> Quota:
    for name, value in found.items():
        if name not in NAMES or not (value is None or _is_limit(name, value)):
            raise ValueError(f"{plain(str(name), 40)} is not a limit that this version knows")
    return Quota(**found)


def write(folder: str, quotas: Quotas) -> None:
    """Keep the quotas of the home in a folder, from the next session and command on.

    Raises:
        StoreError: they cannot be written.
    """
    path = Path(folder, FILE)
    told = quotas.as_dict()
    from holdfast.runtime.store import beside_database  # most homes do not have a quota

    if (origin := beside_database.origin_of(path.parent)) is not None:
        origin.put(path, json.dumps(told))
    try:
        if any(value is not None for value in told.values()):
            private_files.replace(path, json.dumps(told))
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def usage(db: Statements, user: str = "") -> QuotaUsage:
    """Return the present use of a home, or of one user of it, as a transaction sees it."""
    running, memory, cpus = db.run(_RUNNING, (_OF_MODEL, os.cpu_count() or 1, user, user)).fetchone()
    return QuotaUsage(int(db.value(_ALL, user, user)), int(running), int(memory), float(cpus))


def check(db: Statements, folder: str, user: str = "") -> None:
    """Check that the rows a transaction has just added are within the quotas; else they are taken back.

    Args:
        db: the transaction.
        folder: of the home.
        user: the maker of the session; empty if that is not known.

    Raises:
        QuotaReached: it is not.
        StoreError: the quotas cannot be read.
    """
    found = read(folder)
    if found.home != Quota():
        _check(found.home, usage(db), "the quota")
    if (of_user := found.of(user)) != Quota():
        _check(of_user, usage(db, user), f"the quota of {plain(user, 80)}")


def _check(quota: Quota, now: QuotaUsage, whose: str) -> None:
    if quota.sessions is not None and now.sessions > quota.sessions:
        raise QuotaReached(
            f"cannot have another session: {whose} is {quota.sessions} in all",
            hint="remove some with `holdfast rm`",
            retry_after=AGAIN_SECONDS,
        )
    checked: tuple[tuple[float | None, float, str, Callable[[Any], str]], ...] = (
        (quota.running, now.running, "running sessions", "{:g}".format),
        (quota.memory, now.memory, "of memory for running sessions", gib_text),
        (quota.cpus, now.cpus, "processors for running sessions", "{:g}".format),
    )
    for limit, found, of, shown in checked:
        if limit is not None and found > limit:
            raise QuotaReached(
                f"cannot run another session: {whose} is {shown(limit)} {of}, and this one would make it "
                f"{shown(found)}",
                hint="suspend or remove some, or give it less: sessions that sleep are not counted",
                retry_after=AGAIN_SECONDS,
            )


def check_copies(folder: str, count: int, user: str = "") -> None:
    """Check the number of copies that one call of a user makes.

    Raises:
        QuotaReached: they are too many.
    """
    most = read(folder).least("forks", user)
    if most is not None and count > most:
        raise QuotaReached(
            f"cannot make {count} copies: the quota is {most} in one call",
            hint="make fewer, in several calls",
        )


def count_command(folder: str, user: str = "") -> None:
    """Count a command that a user is about to begin, over all processes of the home.

    Twice as many can begin together as in a second, at least one.

    Raises:
        QuotaReached: too many have begun.
        StoreError: they cannot be counted.
    """
    found = read(folder)
    if (rate := found.of(user).commands) is not None:
        place = 1 + int.from_bytes(hashlib.blake2b(user.encode(), digest_size=4).digest()) % _PLACES
        _count(folder, rate, place, f"the quota of {plain(user, 80)}")
    if found.home.commands is not None:
        _count(folder, found.home.commands, 0, "the quota")


def _count(folder: str, rate: float, place: int, whose: str) -> None:
    path, burst, offset = f"{folder}/{RATE_FILE}", max(1.0, 2 * rate), place * _SHAPE.size
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            kept = os.pread(file, _SHAPE.size, offset)
            is_used = len(kept) == _SHAPE.size and any(kept)
            left, at = _SHAPE.unpack(kept) if is_used else (burst, now)
            # A time to come is from an earlier start of the machine.
            left = min(burst, left + (now - at) * rate) if at <= now else burst
            if left >= 1:
                os.pwrite(file, _SHAPE.pack(left - 1, now), offset)
                return
        finally:
            os.close(file)
    except OSError as error:
        raise StoreError(f"cannot count commands in {path}: {error.strerror or error}") from error
    raise QuotaReached(
        f"cannot begin a further command: {whose} is {rate:g} in a second",
        hint="wait, or join several into one",
        retry_after=(1 - left) / rate,
    )


def _parsed(name: str, text: str) -> Any:
    if text in ("none", "off", ""):
        return None
    value: Any = None
    if name in _SIZES:
        value = parse_size(text)
    elif name in _DURATIONS:
        value = parse_duration(text)
    else:
        try:
            value = float(text) if name in _FRACTIONS else int(text)
        except ValueError:
            value = None
    if value is None or not _is_limit(name, value):
        raise InvalidArgument(
            f"cannot set the quota of {name} to '{plain(text, 40)}'",
            hint=f"for example {_EXAMPLES.get(name, '5')}, or none",
        )
    if name == "idle" and value < _IDLE_LEAST:
        raise InvalidArgument(f"cannot set idle: the shortest time is {_IDLE_LEAST:g} s")
    return value


def _is_limit(name: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float) and name not in _FRACTIONS:
        return False
    least = 0 if name in ("running", "sessions") else 1 if name == "forks" else 1e-3
    return least <= value < 1e15
