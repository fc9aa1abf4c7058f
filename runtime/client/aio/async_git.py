"""The Git repositories of a session over a URL: the same calls of its `git`, run as programs."""

from __future__ import annotations

from typing import Any

from holdfast.runtime.api import git_calls
from holdfast.runtime.api.git_calls import GitCall
from holdfast.runtime.api.session_git import SessionGit
from holdfast.runtime.client.aio.async_commands import AsyncPrograms
from holdfast.runtime.client.aio.async_handle import AsyncSessionPart
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.bound_methods import asking


class AsyncGit(AsyncSessionPart):
    """Git in one session, as `SessionGit` has it."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        super().__init__(transport, session)
        self._programs = AsyncPrograms(transport, session)

    async def _done(self, verb: str, told: dict[str, Any]) -> Any:
        timeout = told.pop("timeout", None)
        call: GitCall[Any] = getattr(git_calls, verb)(**told)
        return call.result(await self._programs.run(call.argv, env=call.env, timeout=timeout))

    clone = asking(SessionGit.clone, _done)
    init = asking(SessionGit.init, _done)
    status = asking(SessionGit.status, _done)
    diff = asking(SessionGit.diff, _done)
    branches = asking(SessionGit.branches, _done)
    checkout = asking(SessionGit.checkout, _done)
    add = asking(SessionGit.add, _done)
    commit = asking(SessionGit.commit, _done)
    pull = asking(SessionGit.pull, _done)
    push = asking(SessionGit.push, _done)
