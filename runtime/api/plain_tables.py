"""Results as tables for programs: the JSON of the command line and the server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.results import CellError, CellResult, ExecResult


def exec_result(value: ExecResult) -> dict[str, Any]:
    """Return the result of a command for programs, without its output."""
    return {
        "command_id": value.command_id,
        "exit_code": value.exit_code,
        "waiting": value.waiting and value.waiting.as_dict(),
        "start_offset": value.start_offset,
        "end_offset": value.end_offset,
        "timed_out": value.timed_out,
        "shell_exited": value.shell_exited,
        "incomplete": value.incomplete,
        "message": value.message,
        "cwd": value.cwd,
        "signal": value.signal,
        "duration": value.duration,
        "dropped": value.dropped,
        "lost": value.lost,
        "recorded": value.recorded,
        "news": [event.as_dict() for event in value.news],
    }


def cell_result(value: CellResult) -> dict[str, Any]:
    """Return the result of a cell for programs."""
    error = value.error
    return {
        "cell_id": value.cell_id,
        "status": value.status,
        "execution_count": value.execution_count,
        "stdout": value.stdout,
        "stderr": value.stderr,
        "result": value.text,
        "outputs": [
            {"type": output.kind, "data": dict(output.data), "metadata": dict(output.metadata)}
            for output in value.outputs
        ],
        "error": error and cell_error(error),
        "waiting": value.waiting and value.waiting.as_dict(),
        "duration": value.duration,
        "seq": value.seq,
        "recorded": value.recorded,
        "dropped": value.dropped,
        "lost": value.lost,
    }


def cell_error(value: CellError) -> dict[str, Any]:
    """Return the exception of a cell for programs."""
    return {"ename": value.ename, "evalue": value.evalue, "traceback": list(value.traceback)}
