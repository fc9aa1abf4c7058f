"""A home behind each of its doors to Python, for tests that must find no difference."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.client.aio.async_handle import AsyncHandle
from holdfast.runtime.client.aio.async_holdfast import AsyncHoldfast
from holdfast.runtime.client.aio.async_local import PrivateServer
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast

HERE, URL, ASYNC = "in process", "over a URL", "async over a URL"
BRIEF = [HERE, URL, pytest.param(ASYNC, marks=pytest.mark.thorough)]
BLOCKING = [HERE, URL]
LONG = [HERE, pytest.param(URL, marks=pytest.mark.thorough)]
"""For tests of several seconds."""


@contextmanager
def opened(door: str, home: Home) -> Iterator[Holdfast]:
    """Yield a controller of a home, behind this door, served by a thread of this process.

    Its type is the in-process controller, whose methods it must have.
    """
    if door == HERE:
        with Holdfast(home) as here:
            yield here
        return
    server = PrivateServer(home)
    url, token = f"unix://{server.address.socket}", server.address.token
    try:
        if door == URL:
            with RemoteHoldfast(url, token=token) as remote:
                yield cast("Holdfast", remote)
        else:
            with _Loop() as loop:
                made = loop.run(_made(url, token))
                yield cast("Holdfast", _blocking(made, loop))
                loop.run(made.close())
    finally:
        server.close()


async def _made(url: str, token: str | None) -> AsyncHoldfast:
    return AsyncHoldfast(url, token=token)


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> _Loop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Any) -> Any:
        """Return the result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _Blocking:
    """An async handle, whose methods wait."""

    def __init__(self, handle: Any, loop: _Loop) -> None:
        self._handle, self._loop = handle, loop

    def __getattr__(self, name: str) -> Any:
        return _blocking(getattr(self._handle, name), self._loop)

    def __repr__(self) -> str:
        return repr(self._handle)

    def __iter__(self) -> Iterator[Any]:
        return _each(aiter(self._handle), self._loop)

    def __enter__(self) -> Any:
        return _blocking(self._loop.run(self._handle.__aenter__()), self._loop)

    def __exit__(self, *why: Any) -> None:
        self._loop.run(self._handle.__aexit__(*why))


def awaits(controller: object) -> bool:
    """Return whether a controller is behind the async client, whose callbacks can be coroutines."""
    return isinstance(controller, _Blocking)


def _blocking(value: Any, loop: _Loop) -> Any:
    """Return a value of an async handle as one of a blocking handle."""
    if inspect.isawaitable(value):
        return _blocking(loop.run(_awaited(value)), loop)
    if isinstance(value, AsyncIterator):
        return _each(value, loop)
    if isinstance(value, list | tuple) and any(isinstance(each, AsyncHandle) for each in value):
        return type(value)(_blocking(each, loop) for each in value)
    if isinstance(value, AsyncHandle) or hasattr(value, "__aenter__") or hasattr(value, "__aiter__"):
        return _Blocking(value, loop)
    if inspect.ismethod(value) and not isinstance(value.__self__, type):
        return _method(value, loop)
    return value


async def _awaited(value: Any) -> Any:
    return await value


def _method(method: Callable[..., Any], loop: _Loop) -> Callable[..., Any]:
    def call(*args: Any, **how: Any) -> Any:
        given = [each._handle if isinstance(each, _Blocking) else each for each in args]
        return _blocking(loop.run(_called(method, given, how)), loop)

    return call


async def _called(method: Callable[..., Any], args: list[Any], how: dict[str, Any]) -> Any:
    made = method(*args, **how)  # in the loop, as its callers call it
    return await made if inspect.isawaitable(made) else made


def _each(items: AsyncIterator[Any], loop: _Loop) -> Iterator[Any]:
    end = object()

    async def following() -> Any:
        return await anext(items, end)

    while (item := loop.run(following())) is not end:
        yield item
