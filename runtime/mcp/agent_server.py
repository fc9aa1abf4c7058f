"""The server: its tools, their hints, texts and schemas, and its clients' sessions.

Each word of a text costs every conversation.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import ToolAnnotations
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from holdfast.base import actors
from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import HoldfastError
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.http_doors.admission import KEY
from holdfast.runtime.mcp.agent_sessions import AgentSessions, Default
from holdfast.runtime.mcp.agent_tools import PatientCalls, error_line
from holdfast.runtime.mcp.command_tools import CommandTools, FileTools
from holdfast.runtime.mcp.kernel_tools import KernelTools
from holdfast.runtime.mcp.state_tools import StateTools
from holdfast.runtime.mcp.task_tools import TaskTools
from holdfast.runtime.operations.context import Progress

INSTRUCTIONS = """\
A Linux sandbox that persists: one bash and one Jupyter kernel for all calls. Directory, variables, \
background jobs and servers stay, also when this conversation ends. Calls need no session; the \
default one is made when first used.
The last line of each answer, in [brackets], has the facts: exit code, time, directory, what waits, \
ids.
- A command that still runs after `wait` seconds is not an error: it continues, and wait(id) follows \
it.
- A program that asks something (password, y/n, a debugger, an editor) is reported as waiting: \
answer(text=…) or answer(key="C-c").
- Servers and builds: run(background=true) leaves the shell free.
- Before anything risky: snapshot(label). It holds files, processes and memory; go_back returns to \
it, with copies=n it makes n sessions there.
- Not sure what is still running? status says it; do not guess, and do not start things twice."""

RUN = """\
Run a command in the session's bash. cd, exports and jobs stay. Returns its output and exit code, or \
after `wait` seconds that it still runs. background=true: on a terminal of its own, for servers and \
long builds."""
ANSWER = """\
Type `text` (and Enter) for the command or cell that waits, or press a key: C-c, C-d, Enter, Up, \
Esc, Tab. `id` means a background command, or a cell."""
WAIT = """\
Follow a running command or cell, of any conversation, until it ends or asks something, at most \
`seconds`. Shows new output. With `port` wait until a server accepts there."""
READ = """\
Show the kept output of a command or cell from a line on; a negative one counts from the end."""
CELL = """\
Run Python in the session's Jupyter kernel, whose variables stay. Returns output, value, traceback, \
and a picture as PNG."""
SCREEN = """\
Show the terminal as a person would see it: for editors, debuggers and other full-screen programs."""
STATUS = """\
Show running or waiting commands, processes, ports, memory, kernel variables, what died since the last \
status, snapshots to go back to."""
SNAPSHOT = "Capture the session at one instant: files, processes, memory. It continues."
GO_BACK = """\
Return the session to a snapshot (label or id; @-1 is the last); the present is kept as a snapshot. \
With copies=n the session stays, and n new ones continue from the snapshot."""
CHANGES = """\
Show what has changed since a snapshot, or `10m`, or a time: files, packages, processes, ports, \
variables, and who did it."""
FILE = """\
Read a file from `line` on, or list a folder; write it with `content`; edit it by replacing `old`, \
which must be in it once, with `new`."""
SESSIONS = """\
List sessions; make one with `new`, a name; end one with `end`: everything \
that is not in a snapshot is lost."""
TASK = """\
The record of the work, kept with the session for the next conversation: goal, plan, decisions. A \
plan has a line for each phase, then `- STEP :: COMMAND`; done(step="1.2") runs COMMAND and counts \
only if it passes. resume says where to continue. An action that lacks an argument says what it takes."""


# The hint about idempotent calls is left out: it is false by default, and means nothing of what only looks.
_LOOKS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_OVERWRITES = _ADDS.model_copy(update={"destructive_hint": True})
_CODE = _OVERWRITES.model_copy(update={"open_world_hint": True})
"""Tools that run code of the client's choice: it can delete, and reach everything the session can."""


class ToolRules(Protocol):
    """The rules for holders of access keys, and the record of calls; None for the door's own token."""

    def permit(self, key: AccessKey | None, tool: str, arguments: dict[str, Any]) -> None:
        """Check a call, and name the session that it is for in its arguments; raises what an agent reads."""

    def needs(self, key: AccessKey | None, scope: str) -> None:
        """Check that a key has a scope, for a step of a call."""

    def note(
        self, key: AccessKey | None, actor: str, tool: str, session: str, seconds: float, status: int
    ) -> None:
        """Record a call."""


MOST_CLIENTS = 100
"""Names of clients that are distinguished; the others share one."""


class AgentServer(MCPServer[Any]):
    """An MCP server for the sessions of one home.

    Args:
        home: the home; None for the default one.
        default: the session for calls that name none.
        actor: who acts, for the journal; None for `agent:` with the name by which the client introduces
            itself.
        progress: receives a line for each step of something slow.
        rules: for holders of access keys; None where keys open nothing.
    """

    def __init__(
        self,
        home: Home | None,
        default: Default,
        *,
        actor: str | None = None,
        progress: Progress | None = None,
        rules: ToolRules | None = None,
    ) -> None:
        calls = PatientCalls()
        super().__init__(
            "holdfast",
            title="Holdfast",
            instructions=INSTRUCTIONS,
            version=VERSION,
            log_level="ERROR",
            middleware=[calls.cancellations],
        )
        self._home, self._default, self._actor, self._progress = home, default, actor, progress
        self._rules = rules
        self._run = secrets.token_hex(2)  # two conversations of one client have two servers
        self._agents: dict[tuple[str, str], AgentSessions] = {}
        self._lock = threading.Lock()
        self._add_tools(calls)

    def _add_tools(self, calls: PatientCalls) -> None:
        commands, kernel = CommandTools(self.agents, calls), KernelTools(self.agents, calls)
        state, files = StateTools(self.agents, calls), FileTools(self.agents, calls)
        for function, title, description, hints in (
            (commands.run, "Run a command", RUN, _CODE),
            (commands.answer, "Answer what waits", ANSWER, _CODE),
            (commands.wait, "Follow what runs", WAIT, _LOOKS),
            (commands.read, "Read kept output", READ, _LOOKS),
            (kernel.cell, "Run Python", CELL, _CODE),
            (state.screen, "Show the terminal", SCREEN, _LOOKS),
            (state.status, "Show what runs", STATUS, _LOOKS),
            (state.snapshot, "Take a snapshot", SNAPSHOT, _ADDS),
            (state.go_back, "Go back to a snapshot", GO_BACK, _ADDS),
            (state.changes, "Show what has changed", CHANGES, _LOOKS),
            (files.file, "Read or change a file", FILE, _OVERWRITES),
            (state.sessions, "List, make or end sessions", SESSIONS, _OVERWRITES),
            (TaskTools(self.agents, calls).task, "Keep the task's record", TASK, _CODE),
        ):
            self.add_tool(
                function,
                description=description,
                annotations=hints.model_copy(
                    update={"title": title}
                ),  # every version of clients reads it there
                structured_output=False,  # clients that find structure drop the text
            )

    def agents(self, context: Context[Any, Any]) -> AgentSessions:
        """Return the sessions of the client that calls, in whose name they are used."""
        key = self._key(context)
        params = context.request_context.session.client_params
        name = self._actor or actors.in_run(_actor(params.client_info.name if params else ""), self._run)
        name, id_ = (name, "") if key is None else (key.acts_as(name), key.id)
        with self._lock:
            if (name, id_) not in self._agents and len(self._agents) >= MOST_CLIENTS:
                name = "agent" if key is None else key.actor
            if (name, id_) not in self._agents:
                holdfast = Holdfast(self._home, actor=name, progress=self._progress)
                default = Default(key.session) if key is not None and key.session else self._default
                needs = None if self._rules is None else partial(self._rules.needs, key)
                self._agents[name, id_] = AgentSessions(holdfast, default, needs)
            return self._agents[name, id_]

    def _key(self, context: Context[Any, Any]) -> AccessKey | None:
        """Return the access key of the request that a call came with; None for the door's own token."""
        if self._rules is None:
            return None
        request = context.request_context.request
        if not isinstance(request, HTTPConnection):  # an access key would be in it
            raise ToolError("cannot call tools: the request is not known")
        found: AccessKey | None = request.scope.get(KEY)
        return found

    async def list_tools(self) -> Any:
        """Return the tools, with schemas that avoid repetition."""
        found = await super().list_tools()
        for tool in found:
            tool.input_schema = _terse(tool.input_schema)
        return found

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> Any:
        """Call a tool; a fault in a call is reported in one line."""
        tool = self._tool_manager.get_tool(name)
        if tool is not None:
            _check_names(name, arguments, tool.parameters["properties"])
        if self._rules is None or context is None:
            return await self._called(name, arguments, context)
        key, began, status = self._key(context), time.monotonic(), 403
        session = str(arguments.get("session") or arguments.get("end") or arguments.get("new") or "")
        try:
            try:
                self._rules.permit(key, name, arguments)
            except HoldfastError as error:
                raise ToolError(error_line(error)) from error
            status = 500
            found = await self._called(name, arguments, context)
            status = 200
            return found
        finally:
            actor = self.agents(context).holdfast.context.actor
            self._rules.note(key, actor, name, session, time.monotonic() - began, status)

    async def _called(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(f"cannot call {name}: {_wrong(error.__cause__)}") from error
            if isinstance(error.__cause__, ToolError):
                raise ToolError(str(error.__cause__)) from error
            raise


def _actor(name: str) -> str:
    """Return an actor made from a client's own name, as far as it is valid."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:40]
    return f"agent:{words}" if words else "agent"


def _check_names(tool: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse arguments that the tool does not have, which the library would ignore."""
    unknown = [plain(name, 40) for name in given if name not in known]
    if unknown:
        has = ", ".join(known)
        raise ToolError(
            f"cannot call {tool}: it does not have the argument {', '.join(unknown[:5])}; it has {has}"
        )


def _wrong(error: ValidationError) -> str:
    found = error.errors(include_input=False)[:3]
    said = [f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in found]
    return plain("; ".join(said), 400)


def _terse(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without titles, defaults that mean "nothing", and alternatives to null."""
    properties = {name: _property(each) for name, each in schema.get("properties", {}).items()}
    required: Sequence[str] = schema.get("required", ())
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
    }


def _property(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key != "title"}
    if "anyOf" in kept:
        kept |= next(each for each in kept.pop("anyOf") if each != {"type": "null"})
    if kept.get("default") in (None, ""):
        kept.pop("default", None)
    return kept
