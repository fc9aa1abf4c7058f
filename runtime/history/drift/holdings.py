"""The state of a session besides files at one instant: processes, ports, shells, kernels.  Pure.

It comes from the guest, or from a snapshot's baseline; either way every field is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter

from holdfast.runtime.guest_rpc.guest_value import KNOWN, Count, GuestValue, Seconds, listed, whole

MAX_ITEMS = 50_000
Text = Annotated[str, whole(100_000)]
Named = Annotated[Text, BeforeValidator(lambda raw: raw or "")]
_ITEMS = Field(max_length=MAX_ITEMS)


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
    """One process. `role` is shell, kernel or supervisor for those of the session itself."""

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
    """A kernel. `names` are its variables: what they are in words, and a digest of small values.

    None where they are not known: it was busy, or is of another language. `stale` if they are those of an
    earlier cell.
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
