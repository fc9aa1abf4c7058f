"""Kernels of a session and the names in them, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc import wait_state, wire_fields
from holdfast.runtime.pulse.facts import Raw, frame, numbers, objects, said, word


@dataclass(frozen=True, slots=True)
class Variable:
    """A name in a kernel. `kind` is value, module, function or class; the rest is known of known types."""

    name: str
    type: str
    kind: str
    length: int | None = None
    bytes: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "variable")
        return cls(
            name=said(told, "name", 200),
            type=said(told, "type", 200),
            kind=said(told, "kind", 20) or "value",
            length=wire_fields.optional_integer(told, "length"),
            bytes=wire_fields.optional_integer(told, "bytes"),
            shape=None if raw.get("shape") is None else numbers(told, "shape"),
            dtype=word(told, "dtype", 200),
        )


@dataclass(frozen=True, slots=True)
class Variables:
    """The names a user has in a kernel, newest last.

    `current` is False if the kernel could not be asked: they are as of cell `as_of`, or `note` says why none
    are known.
    """

    rows: tuple[Variable, ...]
    left_out: int
    as_of: int | None
    current: bool
    note: str

    @classmethod
    def of(cls, raw: Any) -> Self | None:
        """From the answer; nothing if it was not asked for."""
        if raw is None:
            return None
        told = frame(raw, "variables")
        return cls(
            rows=tuple(Variable.of(row) for row in objects(told.head.get("rows"), "variables")),
            left_out=wire_fields.integer(told, "left_out"),
            as_of=wire_fields.optional_integer(told, "as_of"),
            current=wire_fields.flag(told, "current"),
            note=said(told, "note", 300),
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel. `state` is starting, idle, busy or dead; `epoch` counts its processes.

    `observed` says what it does or waits for.
    """

    name: str
    spec: str
    pid: int | None
    state: str
    observed: State
    execution_count: int
    epoch: int
    variables: Variables | None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "kernel")
        return cls(
            name=said(told, "name", 100),
            spec=said(told, "spec", 100),
            pid=wire_fields.optional_integer(told, "pid"),
            state=said(told, "state", 20),
            observed=wait_state.state(raw.get("observed")),
            execution_count=wire_fields.integer(told, "execution_count"),
            epoch=wire_fields.integer(told, "epoch"),
            variables=Variables.of(raw.get("variables")),
        )
