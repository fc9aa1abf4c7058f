"""Tools for the kernel: cell."""

from __future__ import annotations

import concurrent.futures
from typing import Any

from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.errors import HoldfastError, KernelDied
from holdfast.runtime.guest_rpc.results import CellResult
from holdfast.runtime.mcp import cell_results, outcomes
from holdfast.runtime.mcp.agent_sessions import AgentSession, RunningCell
from holdfast.runtime.mcp.agent_tools import AgentTools, patience, said
from holdfast.runtime.mcp.patient_calls import LastLine
from holdfast.runtime.mcp.tool_hints import message


class KernelTools(AgentTools):
    """The tools of the kernel."""

    async def cell(self, context: Context[Any, Any], code: str, wait: float = 50, session: str = "") -> Any:
        """Run code."""
        seconds = patience(wait)

        def work(found: AgentSession, last: LastLine) -> Any:
            cell = found.new_cell()
            cell.run(
                lambda: found.session.cell(
                    code, busy_wait=1, on_event=lambda event: last.feed(event.text.encode())
                )
            )
            return followed(found, cell, seconds)

        def stop(found: AgentSession) -> None:
            found.session.kernel.interrupt()

        return await self.call(context, session, work, stop=stop)


def followed(found: AgentSession, cell: RunningCell, seconds: float) -> Any:
    """Wait for a cell, and return what it shows: text, and a picture if it made one."""
    try:
        result = cell.done.result(timeout=seconds)
    except concurrent.futures.TimeoutError:
        return said(found, "", *outcomes.still_runs(seconds, cell.id))
    except KernelDied as error:
        found.session.kernel.restart()
        raise ToolError(message(error)) from error
    text = cell_results.text(result, cell.id, found.take_news())
    png = cell_results.picture(result)
    return text if png is None else [text, Image(data=png, format="png")]


def finished(cell: RunningCell) -> CellResult:
    """Return the result of a cell.

    Raises:
        ToolError: it still runs.
        HoldfastError: it could not be run.
    """
    if not cell.done.done():
        raise ToolError(f"cannot read {cell.id}: it still runs; wait(id={cell.id!r}) follows it")
    error = cell.done.exception()
    if isinstance(error, HoldfastError):
        raise error
    return cell.done.result()
