"""The state of a session at a journal entry: the present state, minus the entries since then.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.errors import ProtocolError
from holdfast.runtime.history.drift.authors import Authors, EntryTable
from holdfast.runtime.history.drift.holdings import (
    HeldKernel,
    HeldProcess,
    HeldShell,
    Holdings,
    Value,
    name_of,
    value_of,
)


def rewind(now: Holdings, entries: Sequence[EntryTable], seq: int, at: float, known: Authors) -> Holdings:
    """Return the holdings at the entry of that number. Invalid entries are skipped.

    Args:
        now: what is held after the last of the entries.
        entries: those with greater numbers, oldest first; others are skipped.
        seq: the number of the entry.
        at: its time in Unix seconds, for processes whose command is not known.
        known: the commands of all the entries.
    """
    shells, kernels = dict(now.shells), dict(now.kernels)
    lived = max([at, *_restores(entries, seq)])
    processes = {pid: one for pid, one in now.processes.items() if not _began_after(one, seq, lived, known)}
    for entry in reversed(entries):
        number = entry.get("seq")
        if not isinstance(number, int) or number <= seq:
            continue
        kind = entry.get("kind")
        try:
            if kind == "changed":
                _take_back(entry, shells, kernels)
                _take_back_ports(entry, processes)
            elif kind in ("process_exited", "job_ended"):
                gone = _exited(entry)
                if gone and not _began_after(gone, seq, lived, known):
                    processes[gone.pid] = gone
        except ProtocolError:
            continue
    return replace(now, at=at, seq=seq, processes=processes, shells=shells, kernels=kernels)


def _restores(entries: Sequence[EntryTable], seq: int) -> list[float]:
    """Return when the session was restored since: an earlier start time can be an older process's."""
    found = []
    for entry in entries:
        number, when = entry.get("seq"), entry.get("at")
        restored = entry.get("kind") == "woken" and entry.get("event") == "restored"
        if restored and isinstance(number, int) and number > seq and isinstance(when, int | float):
            found.append(float(when))
    return found


def _began_after(one: HeldProcess, seq: int, at: float, known: Authors) -> bool:
    if one.role:
        return False
    if found := known.of(one.origin):
        return min(found) > seq
    # All later commands are known: one that is not is older. Without a command, the start time must do.
    return not one.origin and bool(one.started) and one.started > at


def _exited(entry: EntryTable) -> HeldProcess | None:
    pid, command, origin = entry.get("pid"), entry.get("command"), entry.get("origin")
    if not isinstance(pid, int) or not isinstance(command, str):
        return None
    ports = entry.get("ports")
    started = entry.get("started")
    id_ = origin.get("id") if isinstance(origin, dict) else entry.get("id")
    return HeldProcess.of(
        {
            "pid": pid,
            "command": command,
            "started": started if isinstance(started, int | float) else 0.0,
            "ports": [port for port in ports if isinstance(port, int)] if isinstance(ports, list) else [],
            "origin": id_ if isinstance(id_, str) else "",
        }
    )


def _take_back(entry: EntryTable, shells: dict[str, HeldShell], kernels: dict[str, HeldKernel]) -> None:
    shell, kernel = entry.get("shell"), entry.get("kernel")
    if isinstance(shell, str) and shell in shells:
        held = shells[shell]
        cwd, umask = _old(entry, "cwd"), _old(entry, "umask")
        before = {
            "cwd": cwd if isinstance(cwd, str) else held.cwd,
            "umask": umask if isinstance(umask, int) else held.umask,
            "variables": _before(held.variables, entry.get("variables")),
            "functions": _before(held.functions, entry.get("functions")),
            "aliases": _before(held.aliases, entry.get("aliases")),
        }
        shells[shell] = held.model_copy(update=before)
    if isinstance(kernel, str) and kernel in kernels:
        mine = kernels[kernel]
        epoch = _old(entry, "epoch")
        names = dict(mine.names) if mine.names is not None else None
        changed = entry.get("names")
        if names is not None and isinstance(changed, dict):
            for key, pair in changed.items():
                old = _pair(pair)[0]
                if old is None:
                    names.pop(key, None)
                else:
                    names[key] = name_of(old)
        epoch = epoch if isinstance(epoch, int) else mine.epoch
        kernels[kernel] = mine.model_copy(update={"names": names, "epoch": epoch})


def _take_back_ports(entry: EntryTable, processes: dict[int, HeldProcess]) -> None:
    if "ports" not in entry:
        return
    closed, opened = _pair(entry["ports"])
    for pairs, sign in ((opened, False), (closed, True)):
        for port, pid in map(_pair, pairs if isinstance(pairs, list) else ()):
            one = processes.get(pid) if isinstance(pid, int) else None
            if one is None or not isinstance(port, int):
                continue
            rest = tuple(each for each in one.ports if each != port)
            ports = tuple(sorted((*rest, port))) if sign else rest
            processes[one.pid] = one.model_copy(update={"ports": ports})


def _before(held: Mapping[str, Value], fields: Any) -> dict[str, Value]:
    found = dict(held)
    if isinstance(fields, dict):
        for key, pair in fields.items():
            old = value_of(_pair(pair)[0])
            if old is None:
                found.pop(key, None)
            else:
                found[key] = old
    return found


def _old(entry: EntryTable, key: str) -> object:
    return _pair(entry[key])[0] if key in entry else None


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise ProtocolError("cannot understand the session: a change is not a pair")
    return value[0], value[1]
