"""How `snapshot --check` shows what would survive: a table for each verdict, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.runtime.cli import printing

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.snapshots.survivability import Resource, Survivability

BLOCKED = 3
"""The exit code when something blocks."""
_LONGEST = 48


def check(session: Session, *, everything: bool, as_json: bool) -> int:
    """Check, show the report, and return the exit code: 0, or BLOCKED if a capture would be refused."""
    report = session.check()
    if as_json:
        printing.emit(report.as_dict(own=everything))
    else:
        _show(report, everything=everything)
    return BLOCKED if report.blocks else 0


def _show(report: Survivability, *, everything: bool) -> None:
    wanted = [one for one in report.resources if everything or not one.own]
    for title, verdict in (("blocks", "blocks"), ("reset in copies", "reset")):
        rows = [one for one in wanted if one.verdict == verdict]
        if rows:
            printing.say(f"{title}:")
            printing.table(("PID", "COMMAND", "FD", "WHAT", "KIND"), map(_urgent, rows))
            for line in dict.fromkeys(map(_why, rows)):
                printing.say(line)
    survivors = [one for one in wanted if one.verdict == "survives"]
    if survivors:
        printing.say("survives:")
        printing.table(("PID", "COMMAND", "WHAT"), _survivors(survivors))
    for line in _summary(report):
        printing.say(line)


def _urgent(one: Resource) -> Sequence[str]:
    fd = "" if one.fd is None else str(one.fd)
    return str(one.pid), _short(one.command), fd, one.what, _words(one.kind)


def _why(one: Resource) -> str:
    advice = f": {one.advice}" if one.advice else ""
    return f"  {_words(one.kind)}: it {one.reason}{advice}"


def _survivors(found: list[Resource]) -> Iterable[Sequence[str]]:
    """Yield one row for each process: how many resources of each kind."""
    kinds: dict[tuple[int, str], dict[str, int]] = {}
    for one in found:
        counted = kinds.setdefault((one.pid, one.command), {})
        counted[one.kind] = counted.get(one.kind, 0) + 1
    for (pid, command), counted in kinds.items():
        counts = [_counted(kind, count) for kind, count in counted.items() if kind not in _ALONE]
        yield str(pid), _short(command), ", ".join(counts) or _ALONE[next(iter(counted))]


# Shown for a process that has nothing else.
_ALONE = {
    "process": "itself",
    "stopped": "itself, stopped",
    "other_user": "itself, with ids of several users",
    "zombie": "itself, ended",
}
# Kinds whose title is not a countable noun.
_NOUNS = {
    "waiting": "event",
    "loopback": "inner connection",
    "connectionless": "unconnected socket",
    "unix": "unix socket",
    "netlink": "netlink socket",
    "proc_file": "file of /proc",
}


def _words(kind: str) -> str:
    return _NOUNS.get(kind, kind.replace("_", " "))


def _counted(kind: str, count: int) -> str:
    first, space, rest = _words(kind).partition(" of ")
    ending = "" if count == 1 else "es" if first.endswith("ch") else "ies" if first.endswith("y") else "s"
    stem = first[:-1] if ending == "ies" else first
    return f"{count} {stem}{ending}{space}{rest}"


def _short(command: str) -> str:
    return command if len(command) <= _LONGEST else command[: _LONGEST - 1] + "…"


def _summary(report: Survivability) -> Iterable[str]:
    blocks, resets = len(report.blocks), len([one for one in report.resets if not one.own])
    verdict = (
        f"{blocks} in the way of a live snapshot" if blocks else "nothing is in the way of a live snapshot"
    )
    yield (
        f"{verdict}; {resets} reset in copies; examined {report.processes} processes and "
        f"{report.descriptors} descriptors in {report.seconds * 1000:.0f} ms"
    )
    yield (
        f"to be written: up to {printing.size(report.memory_bytes)} of memory and "
        f"{printing.size(report.file_bytes)} of files without a name or in memory; "
        f"{printing.size(report.free_bytes)} are free"
    )
    yield (
        f"besides, {report.changed_files} files changed since the session's image: "
        f"{printing.size(report.changed_bytes)}, without holes {printing.size(report.changed_length)}"
    )
    if report.fault:
        yield f"these cannot be copied: {report.fault}"
    if not report.whole or report.left_out:
        yield "there is more than is listed here"
    if blocks:
        named = " ".join(f"--force-drop {one.name}" for one in report.blocks[:3])
        yield f"`{named}` takes it without {'it' if blocks == 1 else 'them'}"
