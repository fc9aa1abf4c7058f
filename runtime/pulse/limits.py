"""What a session may use and uses, where it comes from, and what it wrote, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from holdfast.base.text import plain
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.pulse.facts import frame, said

SPANS = ("some_avg10", "some_avg60", "full_avg10", "full_avg60")


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the whole session in bytes. `used` leaves out what would be given up before any limit."""

    used: int | None
    usage: int | None
    limit: int | None
    peak: int | None
    anonymous: int | None
    cache: int | None
    oom_kills: int | None


@dataclass(frozen=True, slots=True)
class Cpu:
    """Processor time used, and the limit in processors."""

    limit: float | None
    seconds: float | None
    throttled_seconds: float


@dataclass(frozen=True, slots=True)
class Pids:
    """Processes and threads."""

    current: int | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What the control group says. `pressure` has percentages of waiting by resource and span."""

    version: int
    memory: Memory
    cpu: Cpu
    pids: Pids
    processors: int | None
    pressure: Mapping[str, Mapping[str, float]]
    pressure_of: str

    @classmethod
    def of(cls, raw: Any) -> Self:
        """From the answer."""
        told = frame(raw, "limits")
        memory, cpu = frame(told.head.get("memory"), "memory"), frame(told.head.get("cpu"), "cpu")
        pids = frame(told.head.get("pids"), "pids")
        return cls(
            version=wire_fields.integer(told, "version"),
            memory=Memory(
                *(
                    wire_fields.optional_integer(memory, key)
                    for key in ("used", "usage", "limit", "peak", "anonymous", "cache", "oom_kills")
                )
            ),
            cpu=Cpu(
                None if cpu.head.get("limit") is None else wire_fields.number(cpu, "limit"),
                None if cpu.head.get("seconds") is None else wire_fields.number(cpu, "seconds"),
                wire_fields.number(cpu, "throttled_seconds"),
            ),
            pids=Pids(
                wire_fields.optional_integer(pids, "current"), wire_fields.optional_integer(pids, "limit")
            ),
            processors=wire_fields.optional_integer(told, "processors"),
            pressure=_pressure(wire_fields.table(told.head.get("pressure"), "pressure")),
            pressure_of=said(told, "pressure_of", 20),
        )


def _pressure(raw: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
    found = {}
    for name in ("memory", "cpu", "io"):
        if raw.get(name) is not None:
            told = frame(raw[name], "pressure")
            found[name] = {key: wire_fields.number(told, key) for key in SPANS if key in told.head}
    return found


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a session comes from. `generation` counts the restores since a session that was made fresh."""

    session: str
    name: str
    generation: int
    parent_snapshot: str | None
    image: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that is not as it was. `kind` is added, changed or deleted."""

    path: str
    kind: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Disk:
    """What was written since the image, or since a moment: bytes of the files then. `top` are the largest."""

    since: str
    bytes: int
    added: int
    changed: int
    deleted: int
    top: tuple[Changed, ...]


def disk(
    since: str, written: int, paths: list[tuple[str, int]], sizes: Mapping[str, int], most: int = 10
) -> Disk:
    """Sum up the changes the engine tells of: paths with 0 for changed, 1 for added, 2 for deleted.

    A folder is told of because of what is in it, and is not counted.
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
