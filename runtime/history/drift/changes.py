"""Differences between two holdings: processes, ports, shells, kernels.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.runtime.history.drift.changed_paths import Change
from holdfast.runtime.history.drift.holdings import HeldKernel, HeldProcess, HeldShell, Holdings, Value

_DAILY = frozenset({"PWD", "SHLVL"})
"""Variables that follow from other reported facts."""


@dataclass(frozen=True, slots=True)
class NamedChange:
    """One named thing that changed. `where` is the shell or kernel, `kind` says what it is, `by` who changed
    it.

    Kinds: directory, umask, variable, function, alias; name, kernel.
    """

    kind: str
    where: str
    name: str
    change: Change
    old: str | None = None
    new: str | None = None
    exported: bool = False
    by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessChange:
    """A process that started or ended, or that listens on other ports than before (`changed`)."""

    pid: int
    command: str
    change: Change
    ports: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    started: float = 0.0
    ended: str = ""
    """How it ended, in words, if known."""
    by: tuple[int, ...] = ()


def processes(before: Holdings, now: Holdings) -> list[ProcessChange]:
    """Return the processes that started, ended, or listen elsewhere; the session's own are left out.

    A pid may be reused; after a restore every process has another start time, so then only the command can
    decide.
    """
    found: list[ProcessChange] = []
    for pid, one in now.processes.items():
        old = before.processes.get(pid)
        if one.role:
            continue
        if old is None or not _same(old, one, clock=before.generation == now.generation):
            found.append(ProcessChange(pid, one.command, "new", one.ports, started=one.started))
            if old is not None and not old.role:
                found.append(ProcessChange(pid, old.command, "deleted", old.ports))
        elif old.ports != one.ports:
            opened = tuple(port for port in one.ports if port not in old.ports)
            closed = tuple(port for port in old.ports if port not in one.ports)
            found.append(ProcessChange(pid, one.command, "changed", opened, closed, one.started))
    for pid, old in before.processes.items():
        if pid not in now.processes and not old.role:
            found.append(ProcessChange(pid, old.command, "deleted", old.ports))
    return sorted(found, key=lambda one: (one.change == "deleted", one.pid))


def shells(before: Mapping[str, HeldShell], now: Mapping[str, HeldShell]) -> list[NamedChange]:
    """Return what changed in the shells that existed before and still exist."""
    return [
        item for name, shell in now.items() for item in _shell(name, before.get(name, HeldShell()), shell)
    ]


def kernels(before: Mapping[str, HeldKernel], now: Mapping[str, HeldKernel]) -> list[NamedChange]:
    """Return what changed in the kernels; names only where they are known at both points."""
    found: list[NamedChange] = []
    for name, kernel in now.items():
        old = before.get(name, HeldKernel())
        if old.epoch and kernel.epoch != old.epoch:
            times = kernel.epoch - old.epoch
            found.append(
                NamedChange(
                    "kernel", name, name, "changed", new=f"restarted {times}x" if times > 1 else "restarted"
                )
            )
        if kernel.names is None or old.names is None:
            continue
        for key in sorted({*kernel.names, *old.names}):
            was, is_ = old.names.get(key), kernel.names.get(key)
            if was != is_:
                found.append(
                    NamedChange("name", name, key, _change(was, is_), was and was[0], is_ and is_[0])
                )
    return found


def _same(old: HeldProcess, one: HeldProcess, *, clock: bool) -> bool:
    if clock and old.started and one.started and abs(old.started - one.started) > 1.0:
        return False
    return old.command == one.command or (clock and bool(old.started) and bool(one.started))


def _shell(name: str, old: HeldShell, now: HeldShell) -> Iterator[NamedChange]:
    if not now.cwd and not now.variables:
        return  # nothing is known of it: a shell of another kind, or one that has just started
    if old.cwd != now.cwd and old.cwd:
        yield NamedChange("directory", name, "cwd", "changed", old.cwd, now.cwd)
    if old.umask is not None and now.umask is not None and old.umask != now.umask:
        yield NamedChange("umask", name, "umask", "changed", f"{old.umask:04o}", f"{now.umask:04o}")
    for kind, was, is_ in (
        ("variable", old.variables, now.variables),
        ("function", old.functions, now.functions),
        ("alias", old.aliases, now.aliases),
    ):
        for key in sorted({*was, *is_}):
            before, after = was.get(key), is_.get(key)
            if key in _DAILY or before == after or (before and after and before[:3] == after[:3]):
                continue
            exported = after is not None and "x" in after.attributes
            yield NamedChange(kind, name, key, _change(before, after), words(before), words(after), exported)


def words(value: Value | None) -> str | None:
    """Format a value for people: itself if it is short, else what it is."""
    if value is None:
        return None
    if value.shown is not None:
        return value.shown
    if "a" in value.attributes or "A" in value.attributes:
        return f"({value.size} elements)"
    return f"({value.size} bytes)"


def _change(before: object, after: object) -> Change:
    return "new" if before is None else "deleted" if after is None else "changed"
