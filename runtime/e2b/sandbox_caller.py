"""The caller of one request of this wire: its sandbox, and its actor.

A session that is suspended is resumed for a request if its maker wanted that, and else does not run.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends
from starlette.requests import HTTPConnection, Request

from holdfast.errors import SessionNotFound
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, owned_by
from holdfast.runtime.e2b import sandbox_lives
from holdfast.runtime.e2b.connect_wire import SandboxUnavailable
from holdfast.runtime.e2b.sandbox_access import ACTOR, SANDBOX, SandboxTokens
from holdfast.runtime.e2b.sandbox_lives import ACCOUNT, SandboxFacts
from holdfast.runtime.http_doors.admission import KEY
from holdfast.runtime.lifetimes import waking
from holdfast.runtime.serve.callers import ApiCaller, Callers
from holdfast.runtime.store.lifetime import Lifetime

Result = TypeVar("Result")


class SandboxCaller(ApiCaller):
    """The caller of one request. Holders of a sandbox's token choose no name in the journal."""

    def __init__(self, connection: HTTPConnection, callers: Callers, tokens: SandboxTokens) -> None:
        key: AccessKey | None = connection.scope.get(KEY)
        super().__init__(connection, callers, ACTOR if key is None else key.actor)
        self.tokens = tokens
        self.share = connection.scope.get(SANDBOX)

    async def in_session(self, ref: str, work: Callable[[Session], Result]) -> Result:
        """Do work with a session that ends on its own, and return its result.

        Its share is separate from the share of callers with the server's token, whom it must not keep out.
        """
        return await self.all.brief.run(lambda: work(self.session(ref)), f"sandbox {ref}")

    @property
    def sandbox(self) -> str:
        """The id of the request's session; only the door's admission sets it."""
        return str(self.connection.scope[SANDBOX])

    @property
    def user(self) -> str | None:
        """The user whom the request names, if it names one."""
        return _basic_user(self.connection.headers.get("authorization", ""))

    @staticmethod
    def own_user(name: str | None) -> str | None:
        """Return the user with whose rights files are used; None for the session's own one.

        An image can lack an account `root`: its number is the same everywhere.
        """
        if name in (None, "", ACCOUNT):
            return None
        return "0" if name == "root" else name

    @staticmethod
    def files(found: Session, user: str | None) -> SessionFiles:
        """Return the files of a session with the rights of the user that a client names.

        As at E2B the account can read and write anything; created files belong to the user, in whose home
        relative paths begin. Others, and the accounts of a session that no client made, have their own
        rights.
        """
        facts, own = SandboxFacts.of(found.row), SandboxCaller.own_user(user)
        rights = found.files if own is None else found.files.as_user(own)
        return rights if facts is None or facts.home is None else owned_by(rights, own or ACCOUNT)

    def session(self, ref: str) -> Session:
        """Return a session that runs; in a thread.

        Raises:
            SandboxUnavailable: it does not.
        """
        try:
            found = super().session(ref)
        except SessionNotFound:
            raise SandboxUnavailable(f"cannot reach the sandbox: {ref} was not found") from None
        if found.state == "suspended":
            of_client = SandboxFacts.of(found.row) is not None
            kept = Lifetime.of(found.row.details)
            if not (kept.sleeps or (of_client and kept.wakes)):
                raise SandboxUnavailable(
                    f"cannot reach the sandbox: {ref} was not found: it is paused", hint="connect to it"
                )
            found = self._woken(found)
        if found.state != "running":
            raise SandboxUnavailable(f"cannot reach the sandbox: {ref} was not found: it has ended")
        return found

    def _woken(self, found: Session) -> Session:
        """Resume a session for a request, unless another request has just done it."""
        hf = self.holdfast()
        row = waking.resume_once(hf.context, found.row)
        now = time.time()
        sandbox_lives.change_life(hf.store, row.id, lambda kept: sandbox_lives.woken(kept, now))
        return Session(hf.context, row)


def _basic_user(header: str) -> str | None:
    """Return the user of an `Authorization: Basic` header."""
    kind, _, value = header.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        return None


async def sandbox_caller(request: Request) -> SandboxCaller:
    """Return the caller of a request, for the functions of paths."""
    return SandboxCaller(request, request.app.state.callers, request.app.state.tokens)


From = Annotated[SandboxCaller, Depends(sandbox_caller)]
"""The argument of the functions of paths that is their caller."""
