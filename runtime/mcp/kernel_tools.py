"""Tools for the kernel: cell."""

from __future__ import annotations

import threading
from typing import Any

from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.errors import KernelDied
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult
from holdfast.runtime.mcp import cell_results
from holdfast.runtime.mcp.agent_sessions import AgentSession
from holdfast.runtime.mcp.agent_tools import AgentTools, patience
from holdfast.runtime.mcp.patient_calls import LastLine
from holdfast.runtime.mcp.tool_hints import message


class KernelTools(AgentTools):
    """The tools of the kernel."""

    async def cell(self, context: Context[Any, Any], code: str, wait: float = 50, session: str = "") -> Any:
        """Run code."""
        seconds, ids, stopped = Patience(patience(wait)), list[str](), threading.Event()

        def work(found: AgentSession, last: LastLine) -> Any:
            def start(cell_id: str) -> None:
                ids.append(cell_id)
                if stopped.is_set():
                    stop(found)

            try:
                result = found.session.cell(
                    code, busy_wait=1, patience=seconds, on_start=start, on_event=_feeding(last)
                )
            except KernelDied as error:
                raise died(found, error) from error
            return told(found, result, wait)

        def stop(found: AgentSession) -> None:
            stopped.set()
            if ids:  # else it waits for those before it, and is stopped when the kernel takes it
                found.session.kernel.interrupt(cell_id=ids[-1])

        return await self.call(context, session, work, stop=stop)


def followed(found: AgentSession, id_: str, seconds: float, last: LastLine) -> Any:
    """Follow a cell of any client from where it was shown."""
    try:
        result = found.session.kernel.join(
            id_, after=found.seq_of(id_), patience=seconds, on_event=_feeding(last)
        )
    except KernelDied as error:
        raise died(found, error) from error
    return told(found, result, seconds)


def answered(found: AgentSession, id_: str, text: str, seconds: float, last: LastLine) -> Any:
    """Answer a cell of any client, and follow it.

    Raises:
        ToolError: it asks nothing.
    """
    kernel = found.kernel()
    if kernel.cell_id != id_ or kernel.observed is None or kernel.observed.state != "waiting":
        raise ToolError(f"cannot answer {id_}: it asks nothing")
    asking = CellResult("waiting", None, "", "", cell_id=id_, seq=found.seq_of(id_))
    try:
        result = found.session.kernel.answer(asking, text, patience=seconds, on_event=_feeding(last))
    except KernelDied as error:
        raise died(found, error) from error
    return told(found, result, seconds)


def told(found: AgentSession, result: CellResult, waited: float) -> Any:
    """Return what a cell showed: text, and a picture if it made one."""
    part = found.seq_of(result.cell_id) > 0
    found.cell_shown(result.cell_id, result.seq)
    text = cell_results.text(result, found.take_news(), waited=waited, part=part)
    png = cell_results.picture(result)
    return text if png is None else [text, Image(data=png, format="png")]


def died(found: AgentSession, error: KernelDied) -> ToolError:
    """Let a kernel that died be replaced, unless it is; return the error for the agent."""
    if found.kernel().state == "dead":
        found.session.kernel.restart()
    return ToolError(message(error))


def _feeding(last: LastLine) -> Any:
    def feed(event: CellEvent) -> None:
        last.feed(event.text.encode())

    return feed
