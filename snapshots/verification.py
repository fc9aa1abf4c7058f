"""Verification that a restore reproduced the capture: compares two trees and lists their differences. Pure.

Differences that every restore makes on purpose are known here: the parent of the root; descriptors of deleted
files get new names, and so do removed folders if something has theirs; closed sockets are in no table of the
kernel; an accepted connection no longer has the listener's path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from holdfast.snapshots.checkpointer.record import REMOVED_FOLDER
from holdfast.snapshots.record import (
    RecordedDescriptor,
    RecordedFile,
    RecordedProcess,
    RecordedSocket,
    RecordedTerminal,
    RecordedThread,
    RecordedTree,
    StateRecord,
)

MAX_DEVIATIONS = 100
_LONGEST = 200
_RIGHTS = (
    *("uids", "gids", "groups", "inheritable", "permitted", "effective", "bounding", "ambient"),
    *("no_new_privs", "seccomp", "filters"),
)
_NONE = "NoneType"
_PLACES = ("executable", "directory", "root")


class Deviation(BaseModel):
    """A difference from the capture: its subject, its process (0: no process), and a description."""

    model_config = ConfigDict(frozen=True)

    about: str
    pid: int
    text: str

    def __str__(self) -> str:
        of = f"process {self.pid}: " if self.pid else ""
        return f"{self.about}: {of}{self.text}"


class Verification(BaseModel):
    """The outcome of a verification.

    `compared` counts things by kind; `skipped` says what was not compared, and why; `more` counts
    deviations beyond those that are listed.
    """

    model_config = ConfigDict(frozen=True)

    compared: dict[str, int] = {}
    deviations: list[Deviation] = []
    more: int = 0
    skipped: list[str] = []

    @property
    def exact(self) -> bool:
        """True if everything compared equals the capture."""
        return not self.deviations

    def plus(
        self,
        compared: Mapping[str, int] | None = None,
        deviations: Iterable[Deviation] = (),
        skipped: Iterable[str] = (),
    ) -> Verification:
        """Return this outcome with more added."""
        every = [*self.deviations, *deviations]
        return Verification(
            compared={**self.compared, **(compared or {})},
            deviations=every[:MAX_DEVIATIONS],
            more=self.more + max(0, len(every) - MAX_DEVIATIONS),
            skipped=[*self.skipped, *skipped],
        )


def images(record: StateRecord, given: RecordedTree) -> Iterator[Deviation]:
    """Compare the images given to a restore with those of the freeze.

    Sockets and terminals are not compared: a restore adapts them.
    """
    yield from _processes(record.tree, given)


def restored(given: RecordedTree, found: RecordedTree) -> Verification:
    """Compare the existing tree with the images it was made from."""
    sockets = {one.id: one for one in found.sockets}
    terminals = {one.index: one for one in found.terminals}
    deviations = [
        *_processes(given, found),
        *(text for one in given.sockets for text in _socket(one, sockets.get(one.id))),
        *(text for one in given.terminals for text in _terminal(one, terminals.get(one.index))),
    ]
    compared = {
        "processes": len(given.processes),
        "threads": sum(len(one.threads) for one in given.processes),
        "descriptors": sum(len(one.descriptors) for one in given.processes),
        "sockets": len(given.sockets),
        "terminals": sum(one.index in terminals for one in given.terminals),
    }
    skipped = [
        f"terminal {one.index}: no process has it open"
        for one in given.terminals
        if one.index not in terminals
    ]
    return Verification().plus(compared, deviations, skipped)


def contents(record: StateRecord, found: Mapping[str, Any]) -> Verification:
    """Compare the open files' contents; `found` has size and digest by path."""
    known = [one for one in record.files if one.digest]
    skipped = [f"content of {one.path}: {one.skipped}" for one in record.files if one.skipped]
    compared = [one for one in known if one.path in found]
    deviations = [
        Deviation(about="content", pid=0, text=f"{one.path[:_LONGEST]} differs from the capture")
        for one in compared
        if not _same_content(one, found[one.path])
    ]
    return Verification().plus({"files": len(compared)}, deviations, skipped)


def names(kernel: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Deviation]:
    """Compare the types of a kernel's names.

    New names are not deviations: a cell may have made them since. Neither are names that were or are None:
    that stands for a value still to come, which a thread may have supplied.
    """
    gone = sorted(set(before) - set(after))
    both = sorted(set(before) & set(after))
    changed = [
        name for name in both if before[name] != after[name] and _NONE not in (before[name], after[name])
    ]
    return [
        Deviation(about="kernel", pid=0, text=f"{kernel}: {what}: {_listed(some)}")
        for what, some in (("names are gone", gone), ("names have an unexpected type", changed))
        if some
    ]


def _processes(before: RecordedTree, after: RecordedTree) -> Iterator[Deviation]:
    there = {one.pid: one for one in after.processes}
    for one in before.processes:
        other = there.pop(one.pid, None)
        if other is None:
            yield Deviation(about="process", pid=one.pid, text=f"{one.name} is missing")
        else:
            yield from (
                Deviation(about=about, pid=one.pid, text=text) for about, text in _process(one, other)
            )
    for extra in there.values():
        yield Deviation(about="process", pid=extra.pid, text=f"{extra.name} was not captured")


def _process(one: RecordedProcess, other: RecordedProcess) -> Iterator[tuple[str, str]]:
    for field in ("ppid", "pgid", "sid", "name"):
        was, is_ = getattr(one, field), getattr(other, field)
        if was != is_:
            yield "process", f"{field} was {was}, is {is_}"
    if (one.state == "zombie") != (other.state == "zombie"):
        yield "process", f"was {one.state}, is {other.state}"
    for field in _PLACES:
        was, is_ = getattr(one, field), getattr(other, field)
        if was and is_ and was != is_ and not _is_renamed(was, is_):
            yield "process", f"{field} was {was[:_LONGEST]}, is {is_[:_LONGEST]}"
    yield from _threads(one, other)
    yield from _descriptors(one, other)


def _is_renamed(was: str, is_: str) -> bool:
    return is_.startswith(f"{was.rpartition('/')[0]}/{REMOVED_FOLDER}")


def _threads(one: RecordedProcess, other: RecordedProcess) -> Iterator[tuple[str, str]]:
    there = {thread.tid: thread for thread in other.threads}
    for thread in one.threads:
        same = there.pop(thread.tid, None)
        if same is None:
            yield "process", f"thread {thread.tid} is missing"
        else:
            yield from (("credentials", text) for text in _rights(thread, same))
    for tid in there:
        yield "process", f"thread {tid} was not captured"


def _rights(one: RecordedThread, other: RecordedThread) -> Iterator[str]:
    for field in _RIGHTS:
        was, is_ = getattr(one, field), getattr(other, field)
        if was != is_:
            yield f"{field} was {_shown(was)}, is {_shown(is_)}"
    # Records made before 22 November 2026 have them in reverse order.
    was, is_ = one.filter_digests, other.filter_digests
    if was and is_ and was not in (is_, is_[::-1]):
        yield "its seccomp filters differ"


def _descriptors(one: RecordedProcess, other: RecordedProcess) -> Iterator[tuple[str, str]]:
    there = {each.fd: each for each in other.descriptors}
    for each in one.descriptors:
        same = there.pop(each.fd, None)
        if same is None:
            yield "descriptor", f"{each.fd} ({each.kind} {each.what[:_LONGEST]}) is missing"
        else:
            yield from (("descriptor", f"{each.fd} {text}") for text in _descriptor(each, same))
    for fd in there:
        yield "descriptor", f"{fd} ({there[fd].kind} {there[fd].what[:_LONGEST]}) was not captured"


def _descriptor(one: RecordedDescriptor, other: RecordedDescriptor) -> Iterator[str]:
    if one.kind != other.kind:
        yield f"was a {one.kind}, is a {other.kind}"
        return
    named = not (one.deleted or other.deleted)
    if named and one.what and other.what and one.what != other.what:
        yield f"led to {one.what[:_LONGEST]}, leads to {other.what[:_LONGEST]}"
    if one.offset is not None and other.offset is not None and one.offset != other.offset:
        yield f"was at offset {one.offset}, is at {other.offset}"
    if one.flags != other.flags and other.kind not in ("eventpoll", "namespace", "pidfd"):
        yield f"had flags {one.flags:o}, has {other.flags:o}"
    if one.cloexec != other.cloexec:
        yield "is closed on exec" if other.cloexec else "is not closed on exec any more"


def _socket(one: RecordedSocket, other: RecordedSocket | None) -> Iterator[Deviation]:
    pid = int(one.id.partition("/")[0])
    if other is None:
        if one.state in ("listening", "established") or one.kind.startswith("unix"):
            yield Deviation(about="socket", pid=pid, text=f"{one.kind} {_ends(one)} ({one.state}) is gone")
        return
    for field in ("kind", "state", "local", "local_port", "remote", "remote_port"):
        was, is_ = getattr(one, field), getattr(other, field)
        if was != is_ and not (field == "local" and one.kind.startswith("unix") and not (was and is_)):
            yield Deviation(
                about="socket", pid=pid, text=f"{one.kind} {_ends(one)}: {field} was {was}, is {is_}"
            )


def _terminal(one: RecordedTerminal, other: RecordedTerminal | None) -> Iterator[Deviation]:
    if other is None:
        return
    for field in ("session", "foreground", "modes", "rows", "columns"):
        was, is_ = getattr(one, field), getattr(other, field)
        if was != is_:
            yield Deviation(
                about="terminal", pid=one.session, text=f"{one.index}: {field} was {was}, is {is_}"
            )


def _same_content(one: RecordedFile, found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and found[1] == one.digest


def _ends(one: RecordedSocket) -> str:
    if one.kind.startswith("unix"):
        return one.local[:_LONGEST]
    to = f" to {one.remote} port {one.remote_port}" if one.remote_port else ""
    return f"{one.local} port {one.local_port}{to}"


def _shown(value: Any) -> str:
    return f"{value:#x}" if isinstance(value, int) and not isinstance(value, bool) else str(value)[:_LONGEST]


def _listed(some: list[str]) -> str:
    return ", ".join(some[:5]) + (f" and {len(some) - 5} more" if len(some) > 5 else "")
