"""The limits and usage of a session, its ancestry and its writes, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from holdfast.base.text import plain
from holdfast.runtime.guest_rpc.guest_value import KNOWN, Count, GuestValue, Seconds, only, shown


class Memory(GuestValue):
    """Memory of the whole session in bytes. `used` leaves out memory that would be reclaimed before any
    limit."""

    used: Count | None = None
    usage: Count | None = None
    limit: Count | None = None
    peak: Count | None = None
    anonymous: Count | None = None
    cache: Count | None = None
    oom_kills: Count | None = None


class Cpu(GuestValue):
    """Processor time used, and the limit in processors."""

    limit: Seconds | None = None
    seconds: Seconds | None = None
    throttled_seconds: Seconds = 0.0


class Pids(GuestValue):
    """Processes and threads. `refused` is how often one could not be started because of the limit."""

    current: Count | None = None
    limit: Count | None = None
    refused: Count | None = None


Spans = Annotated[dict[str, Seconds], only("some_avg10", "some_avg60", "full_avg10", "full_avg60")]


class Limits(GuestValue):
    """The report of the control group. `pressure` has percentages of stalled time by resource and span."""

    version: Count
    memory: Memory
    cpu: Cpu
    pids: Pids
    processors: Count | None = None
    pressure: Annotated[dict[str, Spans], only("memory", "cpu", "io"), KNOWN]
    pressure_of: Annotated[str, shown(20)] = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The ancestry of a session. `generation` counts the restores since a session that was created fresh."""

    session: str
    name: str
    generation: int
    parent_snapshot: str | None
    image: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed file. `kind` is added, changed or deleted."""

    path: str
    kind: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Disk:
    """The writes since the image, or since a moment: then `bytes` sums the files. `top` are the largest."""

    since: str
    bytes: int
    added: int
    changed: int
    deleted: int
    top: tuple[Changed, ...]


def disk(
    since: str, written: int, paths: list[tuple[str, int]], sizes: Mapping[str, int], most: int = 10
) -> Disk:
    """Sum up the changes that the engine reports: paths with 0 for changed, 1 for added, 2 for deleted.

    A folder is reported because of its content, and is not counted.
    """
    folders = {path[:at] for path, _ in paths for at in _slashes(path)}
    leaves = [(path, kind) for path, kind in paths if path not in folders]
    names = {0: "changed", 1: "added", 2: "deleted"}
    top = sorted((pair for pair in leaves if pair[0] in sizes), key=lambda pair: -sizes[pair[0]])[:most]
    counts = {name: sum(kind == number for _, kind in leaves) for number, name in names.items()}
    return Disk(
        since=since,
        bytes=written,
        top=tuple(Changed(plain(path, 4096), names.get(kind, "changed"), sizes[path]) for path, kind in top),
        **counts,
    )


def _slashes(path: str) -> list[int]:
    return [at for at, char in enumerate(path) if char == "/" and at]
