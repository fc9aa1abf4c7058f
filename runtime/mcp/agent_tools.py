"""What all tools share: the session that a call means, patience, errors in an agent's words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.errors import HoldfastError
from holdfast.runtime.mcp import outcomes
from holdfast.runtime.mcp.agent_sessions import AgentSession, AgentSessions
from holdfast.runtime.mcp.patient_calls import LastLine, PatientCalls
from holdfast.runtime.mcp.tool_hints import message

Result = TypeVar("Result")
Agents = Callable[[Context[Any, Any]], AgentSessions]

LONGEST_WAIT = 3600.0


class AgentTools:
    """A set of tools; `agents` returns the sessions of the client that calls."""

    def __init__(self, agents: Agents, calls: PatientCalls) -> None:
        self.agents = agents
        self._calls = calls

    async def call(
        self,
        context: Context[Any, Any],
        session: str,
        work: Callable[[AgentSession, LastLine], Result],
        *,
        stop: Callable[[AgentSession], object] | None = None,
    ) -> Result:
        """Do the work with a session, which is made if the default one does not exist."""
        used: list[AgentSession] = []

        def body(last: LastLine) -> Result:
            used.append(self.agents(context).of(session))
            return work(used[0], last)

        return await self.plainly(
            context,
            body,
            stop=None if stop is None else lambda: stop(used[0]) if used else None,
            session=session or self.agents(context).default.name,
        )

    async def plainly(
        self,
        context: Context[Any, Any],
        work: Callable[[LastLine], Result],
        *,
        stop: Callable[[], object] | None = None,
        session: str | None = None,
    ) -> Result:
        """Do the work in a thread, of the share of a session if it is done in one.

        Raises:
            ToolError: it failed in a way that the agent should know of.
        """
        try:
            return await self._calls.make(context, work, stop=stop, session=session)
        except HoldfastError as error:
            raise ToolError(message(error)) from error
        except ConnectionError as error:
            raise ToolError(f"cannot reach the session: {error}") from error


def said(found: AgentSession, text: str, *facts: str) -> str:
    """Return an answer: what is new in the session, the text, the facts."""
    return outcomes.joined([*found.take_news(), text, outcomes.facts(facts)])


def patience(seconds: float) -> float:
    """Return how long a call waits, in seconds.

    Raises:
        ToolError: it is no such number.
    """
    if not math.isfinite(seconds) or seconds < 0:
        raise ToolError("cannot wait that long: give seconds, such as 50")
    return min(seconds, LONGEST_WAIT)
