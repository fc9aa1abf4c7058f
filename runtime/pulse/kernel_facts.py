"""Kernels of a session and the names in them, as values. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from holdfast.runtime.guest_rpc.guest_value import Count, GuestValue, Observed, listed, shown
from holdfast.runtime.pulse.facts import Label, Name

Kind = Annotated[str, shown(20)]


class Variable(GuestValue):
    """A name in a kernel. `kind` is value, module, function or class; the rest is set for known types."""

    name: Label = ""
    type: Label = ""
    kind: Annotated[Kind, AfterValidator(lambda kind: kind or "value")] = "value"
    length: Count | None = None
    bytes: Count | None = None
    shape: Annotated[tuple[int, ...], listed()] | None = None
    dtype: Label | None = None


class Variables(GuestValue):
    """The names a user has in a kernel, newest last.

    `current` is False if the kernel could not be queried: they are as of cell `as_of`, or `note` says why
    none are known.
    """

    rows: Annotated[tuple[Variable, ...], listed()]
    left_out: Count
    as_of: Count | None = None
    current: bool = False
    note: Annotated[str, shown(300)] = ""


class Kernel(GuestValue):
    """A kernel. `state` is starting, idle, busy or dead; `epoch` counts its processes.

    `observed` says what it does or waits for.
    """

    name: Name = ""
    spec: Name = ""
    pid: Count | None = None
    state: Kind = ""
    observed: Observed
    execution_count: Count
    epoch: Count
    variables: Variables | None = None
