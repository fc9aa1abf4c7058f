"""The pool of a home: the number of waiting sessions, their options, and the useless ones.

Pure but for its file of settings. Knows neither engine nor store.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from holdfast.base import private_files
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.sessions.network_exceptions import Allowed

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.sessions.session_options import SessionOptions
    from holdfast.runtime.store.waiting import WaitingRow

FILE = "pool.json"
MOST = 100
"""Sessions that wait, at most. Each takes the memory of a supervisor and a shell; with a kernel, 75 MiB."""
RECENT = 8
"""How many of the last sessions say which options are in use."""
OLDEST = timedelta(days=1)
"""The age at which a waiting session is replaced: its rules have addresses of names, which change."""
ROOM = 1 << 30
"""Bytes of memory that must be available before a further session is made."""
PRESSURE = 512 << 20
"""Available bytes below which the pool is emptied; a twentieth of the memory, if that is less."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """A person's settings.

    Attributes:
        size: how many sessions wait; 0: there is not a pool.
        image: for sessions with this image, as callers name it; None for the usual one.
        kernel: their kernel is to be ready as well.
    """

    size: int = 0
    image: str | None = None
    kernel: bool = False


def read(home: Home) -> PoolSettings:
    """Return the settings of a home. A pool needs readable settings."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(Path(home.below(FILE)).read_bytes())
        size, image = found["size"], found["image"]
        if isinstance(size, int) and 0 <= size <= MOST and isinstance(image, str | None):
            return PoolSettings(size, image, found["kernel"] is True)
    return PoolSettings()


def write(home: Home, settings: PoolSettings) -> None:
    """Keep the settings of a home.

    Raises:
        InvalidArgument: it would be too large.
        StoreError: they cannot be written.
    """
    if not 0 <= settings.size <= MOST:
        raise InvalidArgument(
            f"cannot keep {settings.size} sessions in the pool: it has room for 0 to {MOST}"
        )
    path = home.root / FILE
    try:
        if not settings.size:
            path.unlink(missing_ok=True)
            return
        kept = {"size": settings.size, "image": settings.image, "kernel": settings.kernel}
        private_files.replace(path, json.dumps(kept), durable=False)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def unsuited(options: SessionOptions) -> str:
    """Return why a session with these options cannot come from a pool; empty if it can."""
    if options.secrets or options.domains or options.network == "domains":
        return "the gateway must know it from the start"
    if options.mounts:
        return "folders of the host are mounted in it"
    if any(Allowed.parse(text).is_name for text in options.allow):
        return "the addresses of its allowed names are looked up for each session"
    return ""


def digest(options: Mapping[str, Any], image: str, *grounds: object) -> str:
    """Return the digest of everything that is fixed while a session waits.

    Args:
        options: all of the session's.
        image: the name of its container's image.
        grounds: the image's id, our version, the network around it.
    """
    parts = (dict(options), image, [str(each) for each in grounds])
    return blake3(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def shares(used: Sequence[str], size: int) -> dict[str, int]:
    """Return the number of waiting sessions for each set of options, in proportion to its uses.

    If there are two or more, one of them is for the last set: a client that has just begun asks again.

    Args:
        used: a set for each session that was started lately, latest first.
        size: of the pool.
    """
    counts = Counter(used)
    if not counts:
        return {}
    latest = {each: -used.index(each) for each in counts}
    exact = {each: size * count / len(used) for each, count in counts.items()}
    found = {each: int(share) for each, share in exact.items()}
    # What is left over goes to the largest remainders; of equal ones, to what was used last.
    order = sorted(counts, key=lambda each: (exact[each] - found[each], latest[each]), reverse=True)
    for each in order[: size - sum(found.values())]:
        found[each] += 1
    if size > 1 and not found[used[0]]:
        found[max(found, key=lambda each: (found[each], -latest[each]))] -= 1
        found[used[0]] = 1
    return {each: count for each, count in found.items() if count}


def spare(
    rows: Sequence[WaitingRow], wanted: Mapping[str, int], *, kernel: bool, now: datetime
) -> list[WaitingRow]:
    """Return the sessions to give up: they are too old, too many, or have different options.

    Args:
        rows: all that wait, oldest first.
        wanted: how many of each digest.
        kernel: whether their kernel is to be ready.
        now: the time.
    """
    left, given_up = dict(wanted), []
    for row in reversed(rows):  # the latest have the longest time before them
        if now - row.made_at > OLDEST or (kernel and not row.kernel) or left.get(row.digest, 0) < 1:
            given_up.append(row)
        else:
            left[row.digest] -= 1
    return given_up


def missing(rows: Sequence[WaitingRow], wanted: Mapping[str, int]) -> list[str]:
    """Return the digests of the sessions to be made, the most wanted first, one for each that is missing."""
    there = Counter(row.digest for row in rows)
    found = [(each, count - there[each]) for each, count in wanted.items() if count > there[each]]
    return [each for each, count in sorted(found, key=lambda pair: -pair[1]) for _ in range(count)]


def memory(text: str) -> tuple[int, int]:
    """Return the bytes of memory that are available, and of all memory, from /proc/meminfo."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def of(name: str) -> int:
        words = fields.get(name, "").split()
        return int(words[0]) << 10 if words and words[0].isdecimal() else 0

    return of("MemAvailable"), of("MemTotal")


def is_short(available: int, total: int) -> bool:
    """Return whether memory is so short that the pool must be emptied."""
    return available < min(PRESSURE, total // 20)
