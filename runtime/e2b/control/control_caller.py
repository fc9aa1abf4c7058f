"""The caller of one request to the control plane: it finds sessions by id, in any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import HTTPConnection, Request

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, SessionBusy, SessionDead, SessionNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.control.sandbox_making import OnceMade
from holdfast.runtime.e2b.e2b_errors import SandboxBusy, SandboxNotFound
from holdfast.runtime.e2b.sandbox_caller import ACTOR
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.e2b.sandbox_ids import SandboxIds
from holdfast.runtime.e2b.sandbox_lives import SandboxLives
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.serve.callers import ApiCaller, chosen_actor

Result = TypeVar("Result")


class ControlCaller(ApiCaller):
    """The caller of one request."""

    def __init__(self, connection: HTTPConnection) -> None:
        state = connection.app.state
        super().__init__(connection, state.callers, chosen_actor(connection, ACTOR))
        self.tokens: SandboxTokens = state.tokens
        self.once: OnceMade = state.once
        self._lives: SandboxLives = state.lives
        self._ids: SandboxIds = state.ids

    def changed(self) -> None:
        """Announce a new sandbox, or a new end of one; call it on the loop."""
        self._lives.look()
        self._ids.forget()

    @property
    def domain(self) -> str:
        """The domain in addresses of a sandbox's ports; browsers resolve names below localhost."""
        # Clients that know a domain alone call its API by this name.
        named = self.connection.headers.get("host", "localhost").removeprefix("api.")
        host, colon, port = named.rpartition(":")
        if not port.isdecimal():
            host, colon, port = f"{host}{colon}{port}", "", ""
        return f"localhost{colon}{port}" if host in ("127.0.0.1", "[::1]") else f"{host}{colon}{port}"

    def session(self, ref: str) -> Session:
        """Return the session with just this id; in a thread.

        Raises:
            SandboxNotFound: there is none, or its time is over.
        """
        hf = self.holdfast()
        row = hf.store.find_session(ref)
        facts = None if row is None else SandboxFacts.of(row)
        if row is None or (facts is not None and facts.ended):
            raise SandboxNotFound(
                f"cannot find the sandbox {plain(ref, 64)}: it was killed, or never existed"
            )
        return Session(hf.context, row)

    async def brief(self, work: Callable[[Holdfast], Result]) -> Result:
        """Do work that ends by itself, and return its result."""
        with _told():
            return await super().brief(work)

    async def in_session(self, ref: str, work: Callable[[Session], Result]) -> Result:
        """Do work with a session that ends by itself, and return its result."""
        with _told():
            return await super().in_session(ref, work)


@contextmanager
def _told() -> Iterator[None]:
    """Translate errors for the control plane: a sandbox that has ended is a 404, one that is busy a 503."""
    try:
        yield
    except (SessionNotFound, SessionDead) as error:
        raise _like(SandboxNotFound, error) from error
    except SessionBusy as error:
        raise _like(SandboxBusy, error) from error


def _like(kind: type[HoldfastError], error: HoldfastError) -> HoldfastError:
    return kind(str(error), hint=error.hint)


async def control_caller(request: Request) -> ControlCaller:
    """Return the caller of a request, for the functions of paths."""
    return ControlCaller(request)
