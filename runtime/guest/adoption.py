"""Adoption: the processes and records a killed supervisor leaves to the next one.

Shells, kernels and jobs have a record with the keeper, under `kind:name`; this module knows the kinds, and
whether a recorded process is the one that runs under its number now. The meaning of a shell's record is the
shell's own business.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest.jobs.keeper import SESSION, HeldRecord, Keeper
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.origins import processes

_SAME = 0.011
"""Seconds by which start times of one process can differ: they are counted in hundredths."""


@dataclass(slots=True)
class Inheritance:
    """The previous supervisor's legacy, by name or id; empty in a session that begins."""

    shells: dict[str, HeldRecord] = field(default_factory=dict)
    kernels: dict[str, HeldRecord] = field(default_factory=dict)
    jobs: dict[str, HeldRecord] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    """The continuing part, for people: "shell main"."""
    lost: list[str] = field(default_factory=list)
    """The parts that could not be adopted, with the reason."""
    runs: set[str] = field(default_factory=set)
    """Ids of the commands, cells and jobs that continue."""
    found: bool = False
    """True if a supervisor left anything."""


def receive(keeper: Keeper) -> Inheritance:
    """Take over the keeper's records, and end programs whose pipes had only the killed supervisor as a
    reader."""
    found = Inheritance()
    places = {"shell": found.shells, "kernel": found.kernels, "job": found.jobs}
    programs: list[HeldRecord] = []
    for one in keeper.inherited():
        found.found = True
        kind, _, name = one.key.partition(":")
        if one.key == SESSION:
            found.session = one.fields
        elif kind == "program":
            programs.append(one)
            keeper.drop(one.key)
        elif kind in places and _usable(kind, one):
            places[kind][name] = one
            found.kept.append(_shown(kind, name, one))
            found.runs |= {str(id_) for id_ in (one.fields.get("runs") or ())}
        else:
            found.lost.append(f"{_shown(kind, name, one)} (its process had ended)")
            if one.descriptor >= 0:
                os.close(one.descriptor)
            keeper.drop(one.key)
    _end_programs(programs)
    found.lost += [f"{_shown('program', '', one)} (its pipes were the supervisor's)" for one in programs]
    return found


def start_of(pid: int) -> float:
    """Return when a process started, in seconds of the boot clock; 0.0 if there is none."""
    stat = access.stat(pid)
    return stat.start if stat is not None and stat.state not in "ZX" else 0.0


def same(pid: int, start: object) -> bool:
    """Check that a process is still the recorded one."""
    now = start_of(pid)
    return now > 0 and isinstance(start, int | float) and abs(now - start) < _SAME


def _usable(kind: str, one: HeldRecord) -> bool:
    if kind in ("shell", "job") and one.descriptor < 0:
        return False
    # The status of one that has ended is known, and reported as that of any other.
    return one.status is not None or same(one.pid, one.fields.get("start"))


def _shown(kind: str, name: str, one: HeldRecord) -> str:
    what = str(one.fields.get("shown") or name)[:80]
    return f"{kind} {what}"


def _end_programs(programs: Iterable[HeldRecord]) -> None:
    """End programs and all processes in their sessions."""
    leaders = {one.pid for one in programs if same(one.pid, one.fields.get("start"))}
    for each in processes() if leaders else ():
        if each.session in leaders:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
