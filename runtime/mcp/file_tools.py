"""Tools for files: file."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.base.text import lines
from holdfast.runtime.mcp.agent_sessions import AgentSession
from holdfast.runtime.mcp.agent_tools import AgentTools, LastLine, said
from holdfast.runtime.mcp.outcomes import part

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
            f"cannot edit {path}: the old text is in it {count} times; "
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
