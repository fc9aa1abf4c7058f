"""The base of handles over a URL: their place, their requests, and methods bound to the API's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.bound_methods import Route, asking, returned_by
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, place
from holdfast.runtime.guest_rpc.patience import Patience

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class AsyncHandle:
    """An object that a server offers at a path."""

    def __init__(self, transport: AsyncTransport, *at: str, always: Mapping[str, Any] | None = None) -> None:
        """Prepare for a place; `always` are parameters of each request about it."""
        self._transport, self._at, self._always = transport, at, always or {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    def _call(
        self, method: str, *what: str, body: Mapping[str, Any] | None = None, **params: Any
    ) -> HttpCall:
        return HttpCall(method, place(*self._at, *what), {**params, **self._always}, body)

    async def _ask(
        self,
        method: str,
        *what: str,
        body: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
        **params: Any,
    ) -> Any:
        return await self._transport.ask(self._call(method, *what, body=body, **params), patience)


class AsyncSessionPart(AsyncHandle):
    """A part of one session."""

    def __init__(self, transport: AsyncTransport, session: str, *below: str, **more: Any) -> None:
        super().__init__(transport, "sessions", session, *below, **more)
        self._session = session


def requesting(
    method: Callable[Concatenate[Any, Parameters], Result], route: Route, read: Callable[[Any], Result]
) -> Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]]:
    """Return a method that makes one request and reads its answer, described by its counterpart in process.

    Its `Patience`, if it takes one, ends the waiting of the server.
    """
    signature = inspect.signature(method)
    waits = str(signature.parameters["patience"].annotation) if "patience" in signature.parameters else ""

    async def ask(self: Any, _verb: str, told: dict[str, Any]) -> Result:
        patience = told.pop("patience", None) if "Patience" in waits else None
        call = route.call(self._at, self._always, told, signature)
        return read(await self._transport.ask(call, patience))

    ask.__annotations__["return"] = returned_by(read)
    return asking(method, ask)
