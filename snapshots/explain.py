"""Explanation of a failed live capture or restore: CRIU's error lines become a cause, a reason and advice.

Pure. The strings are those of CRIU 4.2 and 4.3, the wording is that of the survivability report; the process
and descriptor concerned are also taken from the lines. An unknown line is passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE
from holdfast.snapshots.explain_strings import KNOWN, NOISE, KnownPattern

_PROCESS = (
    r"\(pid: (\d+)\) failed",
    r"Unseizable non-zombie (\d+)",
    r"dump the (\d+) thread",
    r"namespace for (\d+)",
    r"on pid (\d+)",
    r"for pid (\d+)",
    r"SEIZE (\d+):",
)
_DESCRIPTOR = (r"Can't dump file (\d+) of that type", r"for fd=(\d+)", r"fd descriptor (\d+) on pid")


@dataclass(frozen=True, slots=True)
class Reason:
    """An obstacle, and what to do about it.

    `kind` is a key of the survivability catalogue, or empty. `no_space`: the state directory is full.
    `passing`: it may well be gone shortly after. `pid` and `fd` are the session's own, None if not given.
    """

    text: str
    advice: str
    kind: str = ""
    no_space: bool = False
    known: bool = True
    passing: bool = False
    pid: int | None = None
    fd: int | None = None


def explain(errors: list[str]) -> Reason:
    """Return the reason behind CRIU's error lines."""
    for known in KNOWN:
        for line in errors:
            found = re.search(known.pattern, line)
            if found is not None:
                return _located(_reason(known, found), errors)
    telling = [line for line in errors if not re.search(NOISE, line)]
    reason = Reason(
        f"CRIU says: {telling[0].strip()}" if telling else "CRIU gave no reason",
        "`holdfast doctor` shows whether live snapshots work at all here",
        known=False,
        passing=not telling,
    )
    return _located(reason, errors)


def named(reason: Reason, names: Mapping[tuple[int, int | None], str]) -> Reason:
    """Add the process's command and the descriptor's target to the reason, where they are known."""
    if reason.pid is None:
        return reason
    who = names.get((reason.pid, None), "")
    what = names.get((reason.pid, reason.fd), "") if reason.fd is not None else ""
    process = f"{who} (pid {reason.pid})" if who else f"process {reason.pid}"
    where = f", descriptor {reason.fd}" if reason.fd is not None else ""
    return replace(
        reason, text=f"{reason.text} - in {process}{where}{f', {what}' if what and what != who else ''}"
    )


def _reason(known: KnownPattern, found: re.Match[str]) -> Reason:
    kind = CATALOGUE.get(known.kind)
    text = known.text or (f"a process {kind.reason}" if kind is not None else "")
    advice = known.advice or (kind.advice if kind is not None else "")
    if found.groups() and found.group(1):
        text = f"{text} ({found.group(1)})"
    return Reason(text, advice, known.kind, no_space=known.no_space, passing=known.passing)


def _located(reason: Reason, errors: list[str]) -> Reason:
    return replace(reason, pid=_number(_PROCESS, errors), fd=_number(_DESCRIPTOR, errors))


def _number(patterns: tuple[str, ...], errors: list[str]) -> int | None:
    for pattern in patterns:
        for line in errors:
            found = re.search(pattern, line)
            if found is not None:
                return int(found[1])
    return None
