"""What a session holds besides files, at one moment: processes, ports, shells, kernels.  Pure.

It is told by the guest, or kept in a snapshot's baseline; either way every field is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.errors import ProtocolError

MAX_ITEMS = 50_000


class Value(NamedTuple):
    """A variable, function or alias as in the guest's `shell_state.Variable`; its value short or masked."""

    attributes: str = ""
    size: int = 0
    digest: str = ""
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `role` is shell, kernel or supervisor for those of the session itself."""

    pid: int
    command: str = ""
    started: float = 0.0
    ports: tuple[int, ...] = ()
    role: str = ""
    origin: str = ""
    """Id of the command, cell or task it comes from, if known."""


@dataclass(frozen=True, slots=True)
class Shell:
    """What a shell held at its last prompt."""

    pid: int = 0
    cwd: str = ""
    umask: int | None = None
    variables: Mapping[str, Value] = field(default_factory=dict)
    functions: Mapping[str, Value] = field(default_factory=dict)
    aliases: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel. `names` are its variables: what they are in words, and a digest of small values.

    None where they are not known: it was busy, or is of another language. `stale` if they are those of an
    earlier cell.
    """

    epoch: int = 0
    names: Mapping[str, tuple[str, str]] | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Holdings:
    """All of it. `at` is in Unix seconds, `seq` the number of the last journal entry before."""

    at: float = 0.0
    seq: int = 0
    generation: int = 0
    processes: Mapping[int, Process] = field(default_factory=dict)
    shells: Mapping[str, Shell] = field(default_factory=dict)
    kernels: Mapping[str, Kernel] = field(default_factory=dict)


def parse(told: Mapping[str, Any]) -> Holdings:
    """Check what the guest told. Raises ProtocolError."""
    processes = [_process(_dict(item)) for item in _list(told.get("processes", []))]
    return Holdings(
        at=_number(told.get("at", 0)),
        seq=_int(told.get("seq", 0)),
        generation=_int(told.get("generation", 0)),
        processes={one.pid: one for one in processes},
        shells={name: _shell(_dict(one)) for name, one in _dict(told.get("shells", {})).items()},
        kernels={name: _kernel(_dict(one)) for name, one in _dict(told.get("kernels", {})).items()},
    )


def value_of(told: Any) -> Value | None:
    """A value as it stands in holdings and in journal entries; None for none."""
    if told is None:
        return None
    parts = _list(told)
    if len(parts) != 4:
        raise _wrong("a value")
    attributes, size, digest, shown = parts
    return Value(
        _text(attributes)[:16], _int(size), _text(digest)[:32], None if shown is None else _text(shown)
    )


def name_of(told: Any) -> tuple[str, str]:
    """A name of a kernel as it stands in holdings and in journal entries."""
    parts = _list(told)
    if len(parts) != 2:
        raise _wrong("a name")
    return _text(parts[0]), _text(parts[1])


def encode(held: Holdings) -> dict[str, Any]:
    """Return holdings as `parse` reads them."""
    return {
        "at": held.at,
        "seq": held.seq,
        "generation": held.generation,
        "processes": [
            {
                "pid": one.pid,
                "command": one.command,
                "started": one.started,
                "ports": list(one.ports),
                "role": one.role,
                "origin": one.origin,
            }
            for one in held.processes.values()
        ],
        "shells": {
            name: {
                "pid": shell.pid,
                "cwd": shell.cwd,
                "umask": shell.umask,
                "variables": {key: list(value) for key, value in shell.variables.items()},
                "functions": {key: list(value) for key, value in shell.functions.items()},
                "aliases": {key: list(value) for key, value in shell.aliases.items()},
            }
            for name, shell in held.shells.items()
        },
        "kernels": {
            name: {
                "epoch": kernel.epoch,
                "names": kernel.names and {key: list(value) for key, value in kernel.names.items()},
            }
            for name, kernel in held.kernels.items()
        },
    }


def _process(told: Mapping[str, Any]) -> Process:
    origin = told.get("origin") or ""
    return Process(
        pid=_int(told.get("pid")),
        command=_text(told.get("command", "")),
        started=_number(told.get("started", 0)),
        ports=tuple(_int(port) for port in _list(told.get("ports", []))),
        role=_text(told.get("role", "")),
        origin=_text(origin),
    )


def _shell(told: Mapping[str, Any]) -> Shell:
    umask = told.get("umask")
    return Shell(
        pid=_int(told.get("pid", 0)),
        cwd=_text(told.get("cwd") or ""),
        umask=None if umask is None else _int(umask),
        variables=_values(told.get("variables", {})),
        functions=_values(told.get("functions", {})),
        aliases=_values(told.get("aliases", {})),
    )


def _kernel(told: Mapping[str, Any]) -> Kernel:
    names = told.get("names")
    return Kernel(
        epoch=_int(told.get("epoch", 0)),
        names=None if names is None else {key: name_of(value) for key, value in _dict(names).items()},
        stale=told.get("stale") is True,
    )


def _values(told: Any) -> dict[str, Value]:
    found = {key: value_of(value) for key, value in _dict(told).items()}
    return {key: value for key, value in found.items() if value is not None}


def _dict(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or len(value) > MAX_ITEMS:
        raise _wrong("an object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise _wrong("a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 100_000:
        raise _wrong("a text")
    return value


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise _wrong("a whole number")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise _wrong("a number")
    return float(value)


def _wrong(what: str) -> ProtocolError:
    return ProtocolError(f"cannot understand the session: {what} in what it holds is not what was agreed")
