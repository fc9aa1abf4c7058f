"""Tools for commands and files: run, answer, wait, read, file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.base.text import lines, plain
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.mcp import kernel_tools, outcomes
from holdfast.runtime.mcp.agent_sessions import AgentSession
from holdfast.runtime.mcp.agent_tools import AgentTools, LastLine, patience, said
from holdfast.runtime.mcp.kernel_tools import answered, followed
from holdfast.runtime.mcp.outcomes import KeptOutput, ShownText, part

SHORT_LOOK = 1.0
"""Seconds without output after which what still runs is taken to have shown all it has."""


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
            output = KeptOutput()

            def start(command_id: str) -> None:
                ids.append(command_id)
                if stopped.is_set():
                    stop(found)

            result = found.session.exec(
                command, patience=seconds, on_bytes=_feeding(last, output), on_start=start, busy_wait=1
            )
            return _told(found, result, seconds, output)

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
        """Type into the waiting program."""
        seconds = patience(wait)
        if key and text:
            raise ToolError("cannot type a text and press a key in one call: give one of them")
        if not key:
            typed = text + "\n" * enter
            return await self.call(
                context, session, lambda found, last: _typed(found, typed, text, id, seconds, last)
            )
        return await self.call(context, session, lambda found, last: _pressed(found, key, id, seconds, last))

    async def wait(
        self,
        context: Context[Any, Any],
        id: str = "",  # noqa: A002
        seconds: float = 50,
        port: int = 0,
        session: str = "",
    ) -> Any:
        """Follow a command, job or cell, or wait for a server."""
        limit = patience(seconds)
        if bool(id) == bool(port):
            raise ToolError("cannot wait: give `id`, or the `port` of a server")
        if port:
            return await self.call(context, session, lambda found, _: _served(found, port, limit))

        return await self.call(context, session, lambda found, last: _followed(found, id, limit, last))

    async def read(
        self,
        context: Context[Any, Any],
        id: str,  # noqa: A002
        line: int = 1,
        session: str = "",
    ) -> str:
        """Read kept output."""

        def work(found: AgentSession, _: LastLine) -> str:
            shown, runs = _lines(found, id, line)
            more = (
                f"read(id={id!r}, line={shown.omitted[0]}) shows more"
                if shown.omitted
                else ("this is the end of the output so far; it still runs" if runs else "this is the end")
            )
            return outcomes.joined([shown.text, outcomes.facts([more])])

        return await self.call(context, session, work)


def _start(found: AgentSession, command: str) -> str:
    job = found.session.detach(command)
    info = job.info()
    started = f"started in the background as process {info.pid}"
    return said(found, "", started, f"id {job.id}", "wait(id=…) follows it")


def _served(found: AgentSession, port: int, seconds: float) -> str:
    served = found.session.wait_port(port, patience=seconds)
    processes = [each.process for each in served.listeners if each.process is not None]
    by = [f"{plain(each.command, 120)} (pid {each.pid})" for each in processes[:1]]
    return said(found, "", f"port {port} accepts connections", *by)


def _told(found: AgentSession, result: ExecResult, waited: float, output: KeptOutput | None = None) -> str:
    lines = None if output is None else output.lines
    found.command_shown(result.command_id, result.end_offset, lines)
    return outcomes.command(result, found.take_news(), waited=waited, output=output)


def _feeding(last: LastLine, output: KeptOutput) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        last.feed(data)
        output.feed(data)

    return feed


def _followed(found: AgentSession, id_: str, seconds: float, last: LastLine) -> Any:
    """Follow a cell, job or command from the last shown position."""
    kind = found.kind(id_)
    if kind == "cell":
        return followed(found, id_, seconds, last)
    shown = found.shown_of(id_)
    output = KeptOutput(before=0 if shown is None else shown.lines)
    start = None if shown is None else shown.offset
    feed = _feeding(last, output)
    if kind == "job":
        result = found.session.job(id_).wait(start=start, patience=seconds, on_bytes=feed)
    else:
        result = found.session.join(id_, start=start, patience=seconds, on_bytes=feed)
    return _told(found, result, seconds, output)


def _typed(found: AgentSession, typed: str, text: str, id_: str, seconds: float, last: LastLine) -> Any:
    cell = found.cell_in_front(asks=True) if not id_ else id_ if found.kind(id_) == "cell" else None
    if cell is not None:
        return answered(found, cell, text, seconds, last)
    if id_ and id_ != found.session.shell().command_id:
        found.session.job(id_).send(typed)
        return _followed(found, id_, seconds, last)
    output = KeptOutput(before=None)
    result = found.session.answer(typed, patience=seconds, on_bytes=_feeding(last, output))
    return _told(found, result, seconds, output)


def _pressed(found: AgentSession, key: str, id_: str, seconds: float, last: LastLine) -> Any:
    interrupts = key.lower() in ("c-c", "ctrl-c", "ctrl+c")
    kind = found.kind(id_) if id_ else None
    if interrupts and kind in (None, "cell"):
        cell = id_ or found.cell_in_front()
        if cell is not None:
            found.session.kernel.interrupt(cell_id=cell)
            return followed(found, cell, seconds, last)
    if kind == "cell":
        raise ToolError("cannot press that key in a cell: type text, or C-c interrupts it")
    if id_ and id_ != found.session.shell().command_id:
        if not interrupts:
            raise ToolError("cannot press that key in a background command: type text, or C-c ends it")
        found.session.job(id_).signal("INT")
        return _followed(found, id_, seconds, last)
    if interrupts:
        result = found.session.interrupt(patience=seconds)
        return "[nothing was running; C-c was pressed]" if result is None else _told(found, result, seconds)
    running = found.session.shell()
    found.session.terminal.send_keys(key)
    if running.command_id is None:
        return outcomes.joined([found.session.terminal.screen().text, outcomes.facts([f"{key} was pressed"])])
    output = KeptOutput(before=None)
    result = found.session.join(
        running.command_id, start=running.offset, patience=seconds, on_bytes=_feeding(last, output)
    )
    return _told(found, result, seconds, output)


def _lines(found: AgentSession, id_: str, line: int) -> tuple[ShownText, bool]:
    """Return the output of a command, job or cell from a line on, and whether it still runs."""
    if found.kind(id_) == "cell":
        cell = found.session.kernel.join(id_, patience=SHORT_LOOK)
        return part(kernel_tools.whole_cell(cell), line), cell.status in ("running", "waiting")
    output = KeptOutput(wanted=max(1, line))
    result = _output(found, id_, output)
    shown = output.from_line(line, result.rows, result.cols)
    if shown is None:  # so far from the end that its number had to be known
        output = KeptOutput(wanted=output.line_number(line))
        result = _output(found, id_, output)
        shown = output.from_line(output.wanted, result.rows, result.cols)
        assert shown is not None
    return shown, result.running


def _output(found: AgentSession, id_: str, output: KeptOutput) -> ExecResult:
    """Feed all kept output of a command or job, as it is now."""
    patience_ = Patience()
    follow: Callable[..., ExecResult] = partial(found.session.join, id_)
    if found.kind(id_) == "job":
        job = found.session.job(id_)
        info, follow = job.info(), job.wait
        now = info.end_offset if info.running else None
    else:
        shell = found.session.shell()
        now = shell.offset if shell.command_id == id_ else None
    if now is None:
        return follow(on_bytes=output.feed)

    def reached(offset: int) -> None:
        patience_.until = time.monotonic() + SHORT_LOOK  # what is kept comes without a pause
        if offset >= now:
            patience_.end()

    patience_.limit(SHORT_LOOK)
    return follow(on_bytes=output.feed, on_offset=reached, patience=patience_, wait=True)


MOST_READ = 16 << 20
"""Bytes of a file that is shown or edited here; a larger one is a matter for `run`."""
MOST_NAMES = 200


class FileTools(AgentTools):
    """The tools of the session's files."""

    async def file(
        self,
        context: Context[Any, Any],
        path: str,
        content: str | None = None,
        old: str | None = None,
        new: str | None = None,
        line: int = 1,
        session: str = "",
    ) -> str:
        """Read, write or edit a file."""
        if not path:
            raise ToolError("cannot use a file without a path")
        if (old is None) != (new is None):
            raise ToolError("cannot edit: give `old` and `new`")
        if content is not None and old is not None:
            raise ToolError("cannot write and edit in one call: give `content`, or `old` and `new`")

        def work(found: AgentSession, _: LastLine) -> str:
            if content is not None:
                data = content.encode()
                found.session.files.write(path, data)
                return said(found, "", f"wrote {len(data)} bytes to {path}")
            if old is not None and new is not None:
                return _edited(found, path, old, new)
            return _read(found, path, line)

        return await self.call(context, session, work)


def _edited(found: AgentSession, path: str, old: str, new: str) -> str:
    size = found.session.files.stat(path).size
    text = _content(found, path, size).decode("utf-8", "surrogateescape")
    count = text.count(old) if old else 0
    if count != 1:
        raise ToolError(
            f"cannot edit {path}: the old text occurs {count} times; "
            + ("give more of the lines around it" if count else "read the file first")
        )
    at = text.index(old)
    changed = text[:at] + new + text[at + len(old) :]
    found.session.files.write(path, changed.encode("utf-8", "surrogateescape"))
    first = text.count("\n", 0, at) + 1
    return said(found, "", f"edited {path} at line {first}")


def _read(found: AgentSession, path: str, line: int) -> str:
    files = found.session.files
    what = files.stat(path)
    if what.kind == "folder":
        names = [each.name + "/" * (each.kind == "folder") for each in files.list(path)]
        shown = [lines(name) for name in names[:MOST_NAMES]]
        more = [f"… {len(names) - len(shown)} more …"] if len(names) > len(shown) else []
        return said(found, "\n".join([*shown, *more]), f"{len(names)} names")
    content = _content(found, path, what.size)
    if b"\0" in content[:8192]:
        return said(found, "", f"{path} is binary, {what.size} bytes; `run` can look into it")
    shown_part = part(content.decode("utf-8", "replace"), line)
    more_lines = f"line={shown_part.omitted[0]} shows more" if shown_part.omitted else "this is the end"
    return said(found, lines(shown_part.text), f"{what.size} bytes", more_lines)


def _content(found: AgentSession, path: str, size: int) -> bytes:
    if size > MOST_READ:
        raise ToolError(f"cannot read {path} here: it has {size} bytes; use `run` with head, sed or grep")
    return found.session.files.read(path)
