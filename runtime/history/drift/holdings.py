"""The state of a session besides files at one instant (processes, ports, shells, kernels), and differences
between two of them.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter

from holdfast.runtime.guest_rpc.guest_value import KNOWN, Count, GuestValue, Seconds, listed, whole
from holdfast.runtime.history.drift.changed_paths import Change

MAX_ITEMS = 50_000
Text = Annotated[str, whole(100_000)]
Named = Annotated[Text, BeforeValidator(lambda raw: raw or "")]
_ITEMS = Field(max_length=MAX_ITEMS)
_DAILY = frozenset({"PWD", "SHLVL"})
"""Variables that follow from other reported facts."""


class Value(NamedTuple):
    """A variable, function or alias as in the guest's `shell_state.Variable`; its value short or masked."""

    attributes: str = ""
    size: int = 0
    digest: str = ""
    shown: str | None = None


def _value(value: Any) -> Value | None:
    if value is None:
        return None
    attributes, size, digest, shown = _PARTS.validate_python(value)
    return Value(attributes[:16], size, digest[:32], shown)


_STRICT = ConfigDict(strict=True)
_PARTS = TypeAdapter(Annotated[tuple[Text, Count, Text, Text | None], Field(strict=False)], config=_STRICT)
Name = Annotated[tuple[Text, Text], Field(strict=False)]
Known = Annotated[Value, PlainValidator(_value), PlainSerializer(list)]
Values = Annotated[dict[Text, Known], _ITEMS, KNOWN]


class HeldProcess(GuestValue):
    """One process. `role` is shell, kernel or supervisor for the session's own processes."""

    pid: Count
    command: Text = ""
    started: Seconds = 0.0
    ports: Annotated[tuple[Count, ...], listed(MAX_ITEMS)] = ()
    role: Text = ""
    origin: Named = ""
    """The id of the command, cell or job it comes from, if known."""


class HeldShell(GuestValue):
    """The state of a shell at its last prompt."""

    pid: Count = 0
    cwd: Named = ""
    umask: Count | None = None
    variables: Values = Field(default_factory=dict)
    functions: Values = Field(default_factory=dict)
    aliases: Values = Field(default_factory=dict)


class HeldKernel(GuestValue):
    """A kernel. `names` are its variables: a description, and a digest of small values.

    None where they are not known: it was busy, or is of another language. `stale` if they are an earlier
    cell's.
    """

    epoch: Count = 0
    names: Annotated[dict[Text, Name], _ITEMS] | None = None
    stale: Annotated[bool, PlainValidator(lambda raw: raw is True)] = False


@dataclass(frozen=True, slots=True)
class Holdings:
    """All of it. `at` is in Unix seconds, `seq` the number of the last journal entry before."""

    at: float = 0.0
    seq: int = 0
    generation: int = 0
    processes: Mapping[int, HeldProcess] = field(default_factory=dict)
    shells: Mapping[str, HeldShell] = field(default_factory=dict)
    kernels: Mapping[str, HeldKernel] = field(default_factory=dict)


class _HoldingsReport(GuestValue):
    at: Seconds = 0.0
    seq: Count = 0
    generation: Count = 0
    processes: Annotated[list[HeldProcess], _ITEMS] = Field(default_factory=list)
    shells: Annotated[dict[Text, HeldShell], _ITEMS] = Field(default_factory=dict)
    kernels: Annotated[dict[Text, HeldKernel], _ITEMS] = Field(default_factory=dict)


class _Change(GuestValue):
    """A change in a journal entry, with the state before."""

    value: Known | None = None
    name: Name = ("", "")


def parse(answer: Mapping[str, Any]) -> Holdings:
    """Parse what the guest reports.

    Raises:
        ProtocolError: it is not valid.
    """
    found = _HoldingsReport.of(answer)
    processes = {one.pid: one for one in found.processes}
    return Holdings(found.at, found.seq, found.generation, processes, found.shells, found.kernels)


def value_of(value: Any) -> Value | None:
    """Parse a value of a journal entry; None for none.

    Raises:
        ProtocolError: it is not valid.
    """
    return _Change.of({"value": value}).value


def name_of(value: Any) -> tuple[str, str]:
    """Parse a kernel name of a journal entry.

    Raises:
        ProtocolError: it is not valid.
    """
    return _Change.of({"name": value}).name


def encode(held: Holdings) -> dict[str, Any]:
    """Return holdings as `parse` reads them."""
    return {
        "at": held.at,
        "seq": held.seq,
        "generation": held.generation,
        "processes": [one.model_dump(mode="json") for one in held.processes.values()],
        "shells": {name: one.model_dump(mode="json") for name, one in held.shells.items()},
        "kernels": {
            name: one.model_dump(mode="json", exclude={"stale"}) for name, one in held.kernels.items()
        },
    }


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


def changed_processes(before: Holdings, now: Holdings) -> list[ProcessChange]:
    """Return the processes that started, ended, or listen elsewhere; the session's own are left out.

    A pid can be reused; after a restore every process has a new start time, so then only the command can
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


def changed_shells(before: Mapping[str, HeldShell], now: Mapping[str, HeldShell]) -> list[NamedChange]:
    """Return the changes in the shells that existed before and still exist."""
    return [
        item for name, shell in now.items() for item in _shell(name, before.get(name, HeldShell()), shell)
    ]


def changed_kernels(before: Mapping[str, HeldKernel], now: Mapping[str, HeldKernel]) -> list[NamedChange]:
    """Return the changes in the kernels; names only where they are known at both points."""
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
            yield NamedChange(
                kind,
                name,
                key,
                _change(before, after),
                value_in_words(before),
                value_in_words(after),
                exported,
            )


def value_in_words(value: Value | None) -> str | None:
    """Format a value for people: the value itself if short, else its description."""
    if value is None:
        return None
    if value.shown is not None:
        return value.shown
    if "a" in value.attributes or "A" in value.attributes:
        return f"({value.size} elements)"
    return f"({value.size} bytes)"


def _change(before: object, after: object) -> Change:
    return "new" if before is None else "deleted" if after is None else "changed"
