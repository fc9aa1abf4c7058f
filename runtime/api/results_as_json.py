"""Results as tables for programs: the JSON of the command line and the server."""

from __future__ import annotations

from holdfast.base.value_classes import as_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.results import CellResult, ExecResult


def exec_result(value: ExecResult) -> dict[str, Any]:
    """Return the result of a command for programs, without its output."""
    return as_table(value, "output", "rows", "cols")


def cell_result(value: CellResult) -> dict[str, Any]:
    """Return the result of a cell for programs."""
    outputs = [
        {"type": output.kind, "data": dict(output.data), "metadata": dict(output.metadata)}
        for output in value.outputs
    ]
    return {**as_table(value, "outputs"), "result": value.text, "outputs": outputs}
