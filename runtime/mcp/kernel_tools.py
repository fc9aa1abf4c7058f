"""The tool for the kernel: cells, their outcome in text, with one picture at most."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.base.text import lines
from holdfast.errors import KernelDied
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult
from holdfast.runtime.mcp import outcomes
from holdfast.runtime.mcp.agent_sessions import AgentSession
from holdfast.runtime.mcp.agent_tools import AgentTools, LastLine, error_line, patience
from holdfast.runtime.mcp.outcomes import clean, shorten
from holdfast.runtime.mcp.plots import small_png

_PICTURES = ("image/png", "image/jpeg")


def cell_text(
    result: CellResult, news: Iterable[str] = (), *, waited: float = 0.0, part: bool = False
) -> str:
    """Return a cell's result: news, outputs, the exception, facts.

    `waited` is in seconds; `part`: this is the output since an earlier part was shown.
    """
    id_ = result.cell_id
    shown = shorten(whole_cell(result), before=None if part else 0)
    parts = [_STATUS.get(result.status, result.status), f"{result.duration:.1f} s"]
    if result.waiting is not None:
        parts = [outcomes.waits(result.waiting), f"id {id_}"]
    elif result.status == "running":
        parts = [*outcomes.still_runs(waited, id_)]
    elif result.execution_count is not None:
        parts.append(f"In [{result.execution_count}]")
    lost = outcomes.lost(result.dropped + result.lost)
    known = outcomes.facts([*parts, outcomes.rest(shown, id_)])
    return outcomes.joined([*news, lost, shown.text, known])


def whole_cell(result: CellResult) -> str:
    """Return all outputs of a cell, as text."""
    parts = [clean(result.stdout), clean(result.stderr), *_displays(result)]
    if result.error is not None:
        trace = "\n".join(result.error.traceback) or f"{result.error.ename}: {result.error.evalue}"
        parts.append(clean(trace))
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def picture(result: CellResult) -> bytes | None:
    """Return the last picture of a cell that can be shown, as a small PNG."""
    for output in reversed(result.outputs):
        if (png := small_png(output.data)) is not None:
            return png
    return None


_STATUS = {
    "ok": "ok",
    "error": "it raised the exception above",
    "timeout": "interrupted: it took too long",
    "restarted": "the kernel was restarted",
}


def _displays(result: CellResult) -> Iterable[str]:
    pictures = 0
    for output in result.outputs:
        found = output.data.get("text/plain")
        kinds = [kind for kind in output.data if kind != "text/plain"]
        pictures += any(kind in _PICTURES for kind in kinds)
        if isinstance(found, str):
            yield clean(found)
        elif kinds:
            yield f"<{', '.join(lines(kind)[:60] for kind in kinds[:5])}>"
    if pictures > 1:
        yield f"({pictures} pictures; the last one is shown)"


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
        raise ToolError(f"cannot answer {id_}: it does not ask for input")
    asking = CellResult("waiting", None, "", "", cell_id=id_, seq=found.seq_of(id_))
    try:
        result = found.session.kernel.answer(asking, text, patience=seconds, on_event=_feeding(last))
    except KernelDied as error:
        raise died(found, error) from error
    return told(found, result, seconds)


def told(found: AgentSession, result: CellResult, waited: float) -> Any:
    """Return a cell's outputs: text, and a picture if it made one."""
    part = found.seq_of(result.cell_id) > 0
    found.cell_shown(result.cell_id, result.seq)
    text = cell_text(result, found.take_news(), waited=waited, part=part)
    png = picture(result)
    return text if png is None else [text, Image(data=png, format="png")]


def died(found: AgentSession, error: KernelDied) -> ToolError:
    """Let a dead kernel be replaced, unless it already is; return the error for the agent."""
    if found.kernel().state == "dead":
        found.session.kernel.restart()
    return ToolError(error_line(error))


def _feeding(last: LastLine) -> Any:
    def feed(event: CellEvent) -> None:
        last.feed(event.text.encode())

    return feed
