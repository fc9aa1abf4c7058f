"""Tools for commands: run, answer, wait, read."""

from __future__ import annotations

import threading
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.errors import JobNotFound
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.mcp import cell_results, outcomes
from holdfast.runtime.mcp.agent_sessions import AgentSession
from holdfast.runtime.mcp.agent_tools import AgentTools, patience, said
from holdfast.runtime.mcp.kernel_tools import finished, followed
from holdfast.runtime.mcp.patient_calls import LastLine
from holdfast.runtime.mcp.short_text import part

SHORT_LOOK = 1.0
"""Seconds for a program to react to a key."""


class CommandTools(AgentTools):
    """The tools of the shell."""

    async def run(
        self,
        context: Context[Any, Any],
        command: str,
        wait: float = 50,
        background: bool = False,
        session: str = "",
    ) -> str:
        """Run a command."""
        seconds = patience(wait)
        if background:
            return await self.call(context, session, lambda found, _: _start(found, command))

        ids, stopped = list[str](), threading.Event()

        def work(found: AgentSession, last: LastLine) -> str:
            def start(command_id: str) -> None:
                ids.append(command_id)
                if stopped.is_set():
                    stop(found)

            result = found.session.exec(
                command, patience=seconds, on_bytes=last.feed, on_start=start, busy_wait=1
            )
            return _told(found, result, seconds)

        def stop(found: AgentSession) -> None:
            stopped.set()
            if ids:  # else it still waits for the shell, and is stopped when it begins
                found.session.interrupt(command_id=ids[-1], patience=0)

        return await self.call(context, session, work, stop=stop)

    async def answer(
        self,
        context: Context[Any, Any],
        text: str = "",
        key: str = "",
        enter: bool = True,
        id: str = "",  # noqa: A002  (as the other tools name it)
        wait: float = 20,
        session: str = "",
    ) -> Any:
        """Type into what waits."""
        seconds = patience(wait)
        if key and text:
            raise ToolError("cannot type a text and press a key at once: give one of them")
        if not key:
            typed = text + "\n" * enter
            return await self.call(
                context, session, lambda found, last: _typed(found, typed, text, id, seconds, last)
            )
        return await self.call(context, session, lambda found, last: _pressed(found, key, id, seconds, last))

    async def wait(
        self,
        context: Context[Any, Any],
        id: str,  # noqa: A002
        seconds: float = 50,
        session: str = "",
    ) -> Any:
        """Follow a command, job or cell."""
        limit = patience(seconds)

        def work(found: AgentSession, last: LastLine) -> Any:
            cell = found.cell(id)
            if cell is not None:
                return followed(found, cell, limit)
            try:
                job = found.session.job(id)
            except JobNotFound:
                start = found.offsets.get(id)
                result = found.session.join(id, start=start, patience=limit, on_bytes=last.feed)
            else:
                result = job.wait(patience=limit, on_bytes=last.feed)
            return _told(found, result, limit)

        return await self.call(context, session, work)

    async def read(
        self,
        context: Context[Any, Any],
        id: str,  # noqa: A002
        line: int = 1,
        session: str = "",
    ) -> str:
        """Read kept output."""

        def work(found: AgentSession, _: LastLine) -> str:
            cell = found.cell(id)
            whole = _output(found, id).plain if cell is None else cell_results.whole(finished(cell))
            shown = part(whole, line)
            more = (
                f"read(id={id!r}, line={shown.omitted[0]}) shows more" if shown.omitted else "this is the end"
            )
            return outcomes.joined([shown.text, outcomes.facts([more])])

        return await self.call(context, session, work)


def _start(found: AgentSession, command: str) -> str:
    job = found.session.detach(command)
    info = job.info()
    started = f"started in the background as process {info.pid}"
    return said(found, "", started, f"id {job.id}", "wait(id=…) follows it")


def _told(found: AgentSession, result: ExecResult, waited: float) -> str:
    found.shown(result.command_id, result.end_offset)
    return outcomes.command(result, found.take_news(), waited=waited)


def _typed(found: AgentSession, typed: str, text: str, id_: str, seconds: float, last: LastLine) -> Any:
    asking = found.asking() if not id_ else found.cell(id_)
    if asking is not None:
        waiting = asking.waiting
        if waiting is None:
            raise ToolError(f"cannot answer {asking.id}: it asks nothing")
        asking.run(lambda: found.session.kernel.answer(waiting, text))
        return followed(found, asking, seconds)
    if id_ and id_ != found.session.shell().command_id:
        found.session.job(id_).send(typed)
        return _told(found, found.session.job(id_).wait(patience=SHORT_LOOK, on_bytes=last.feed), SHORT_LOOK)
    return _told(found, found.session.answer(typed, patience=seconds, on_bytes=last.feed), seconds)


def _pressed(found: AgentSession, key: str, id_: str, seconds: float, last: LastLine) -> Any:
    cell = found.cell(id_) if id_ else None
    interrupts = key.lower() in ("c-c", "ctrl-c", "ctrl+c")
    if interrupts and (cell is not None or (not id_ and found.computing() is not None)):
        cell = cell or found.computing()
        assert cell is not None
        found.session.kernel.interrupt()
        return followed(found, cell, seconds)
    if id_ and cell is None and id_ != found.session.shell().command_id:
        if not interrupts:
            raise ToolError("cannot press that key in a background command: type text, or C-c ends it")
        job = found.session.job(id_)
        job.signal("INT")
        return _told(found, job.wait(patience=seconds, on_bytes=last.feed), seconds)
    if interrupts:
        result = found.session.interrupt(patience=seconds)
        return "[nothing was running; C-c was pressed]" if result is None else _told(found, result, seconds)
    running = found.session.shell()
    found.session.terminal.send_keys(key)
    if running.command_id is None:
        return outcomes.joined([found.session.terminal.screen().text, outcomes.facts([f"{key} was pressed"])])
    result = found.session.join(
        running.command_id,
        start=running.offset,
        patience=min(seconds, SHORT_LOOK),
        wait=True,
        on_bytes=last.feed,
    )
    return _told(found, result, SHORT_LOOK)


def _output(found: AgentSession, id_: str) -> ExecResult:
    """Return all kept output of a command or job, as it is now."""
    try:
        job = found.session.job(id_)
    except JobNotFound:
        runs = found.session.shell().command_id == id_
        return found.session.join(id_, patience=SHORT_LOOK if runs else None)
    return job.wait(patience=SHORT_LOOK if job.info().running else None)
