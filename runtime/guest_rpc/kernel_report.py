"""A supervisor's report of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_value import Count, GuestValue, Observed, Tally, listed, shown


class KernelInfo(GuestValue):
    """A kernel as the supervisor reports it.

    `spec` is the Jupyter spec it was started from; `language` is its process's own name for it, in lower
    case, and empty before the first has started. `state` is one of starting, idle, busy and dead;
    `observed` has details, and `cell_id` is the cell that has it, begun or not. Processes start in `cwd`;
    `pid` is the present one, and `epoch` counts them.
    """

    name: Annotated[str, shown(100)]
    spec: Annotated[str, shown(100)]
    language: Annotated[str, shown(100)] = ""
    cwd: Annotated[str, shown(4096)] = ""
    pid: Count | None = None
    state: Annotated[str, shown(40)] = ""
    cell_id: Annotated[str, shown(200)] | None = None
    observed: Observed | None = None
    execution_count: Tally = 0
    epoch: Count = 0


class KernelSpecInfo(GuestValue):
    """A Jupyter spec found in a session, by its name, from which kernels can be opened."""

    name: Annotated[str, shown(100)]
    display_name: Annotated[str, shown(200)] = ""
    language: Annotated[str, shown(100)] = ""


class KernelSpecs(GuestValue):
    """The specs that were found in a session."""

    specs: Annotated[tuple[KernelSpecInfo, ...], listed(1000)]


class Kernels(GuestValue):
    """The kernels of a session."""

    kernels: Annotated[tuple[KernelInfo, ...], listed(1000)]


def kernel_reported(report: Mapping[str, Any]) -> KernelInfo:
    """Read the description of one kernel."""
    return KernelInfo.of(wire_fields.table(report.get("kernel"), "a kernel"))
