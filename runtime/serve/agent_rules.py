"""The rules of access keys for agents: the scopes that each tool needs by its arguments, and its session.

Agents call tools in the body of a request, so what a key allows is checked call by call, and the audit trail
has a row for each. Knows neither the tools nor what they do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from holdfast.base.request_id import request_id
from holdfast.base.text import plain
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.access.audit_trail import SERVER_KEY, AuditedRequest
from holdfast.runtime.serve import key_rules
from holdfast.runtime.serve.callers import Callers

_SEE, _RUN, _TASK = ("sessions:read",), ("sessions:exec",), ("tasks:write",)
_FREE = frozenset({"board", "report", "fetch", "actions", "redo"})
"""Actions of `task` that reach beyond one session."""
TASK_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "show": _SEE,
    "export": _SEE,
    "board": _SEE,
    "report": _SEE,
    "fetch": ("files:read",),
    "actions": ("snapshots:read",),
    "redo": ("sessions:create", *_RUN),
    "done": (*_TASK, *_RUN),
    "resume": (*_TASK, *_RUN),
    "block": (*_TASK, "sessions:change"),
    "checkpoint": (*_TASK, "snapshots:create"),
    "reread": (*_TASK, "files:read"),
    "artifact": (*_TASK, "files:read"),
    "artifacts": (*_TASK, "files:read"),
}
"""Those of `task` by its action; all others change the record alone."""
TOOLS: Mapping[str, tuple[str, ...]] = {
    "run": _RUN,
    "answer": _RUN,
    "wait": _SEE,
    "read": _SEE,
    "cell": _RUN,
    "screen": _SEE,
    "status": _SEE,
    "snapshot": ("snapshots:create",),
    "changes": _SEE,
}
"""Those of tools with the same need whatever their arguments."""


def needed(tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the scopes of a call of a tool; None if no key allows it.  Pure."""
    if tool == "go_back":
        return ("sessions:create", "snapshots:read") if arguments.get("copies") else ("sessions:change",)
    if tool == "file":
        if arguments.get("old") is not None or arguments.get("new") is not None:
            return "files:read", "files:write"
        return ("files:write",) if arguments.get("content") is not None else ("files:read",)
    if tool == "sessions":
        if arguments.get("end"):
            return ("sessions:remove",)
        return ("sessions:create",) if arguments.get("new") else _SEE
    if tool == "task":
        return TASK_ACTIONS.get(str(arguments.get("action") or "show"), _TASK)
    return TOOLS.get(tool)


def _is_of_many(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call reaches beyond the session it names."""
    if tool == "task":
        return arguments.get("action") in _FREE
    return tool == "sessions" or (tool == "go_back" and bool(arguments.get("copies")))


class AgentRules:
    """The rules for agents with access keys, and the rows of their calls."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def permit(self, key: AccessKey | None, tool: str, arguments: dict[str, Any]) -> None:
        """Check a call; the session of a key for one session takes the place of its name.

        Raises:
            NotPermitted: the key lacks a scope, or is for one session.
            SessionNotFound: it names a different session.
        """
        if key is None:
            return
        key_rules.check(key, needed(tool, arguments), tool)
        if not key.session:
            return
        if _is_of_many(tool, arguments):
            raise key_rules.of_one_session(key)
        if arguments.get("session"):
            arguments["session"] = key_rules.session_of(self._callers, key, str(arguments["session"]))

    @staticmethod
    def needs(key: AccessKey | None, scope: str) -> None:
        """Check that a key has a scope, for a step of a call.

        Raises:
            NotPermitted: it does not.
        """
        if key is not None:
            key_rules.check(key, (scope,), scope)

    def note(
        self, key: AccessKey | None, actor: str, tool: str, session: str, seconds: float, status: int
    ) -> None:
        """Add a call to the audit trail."""
        if (trail := self._callers.trail) is not None:
            id_ = SERVER_KEY if key is None else key.id
            at = time.time() - seconds
            trail.note(
                AuditedRequest(
                    at, actor, id_, "TOOL", tool, plain(session, 80), status, request_id() or "",
                    round(seconds, 4),
                )
            )  # fmt: skip
