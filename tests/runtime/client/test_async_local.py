"""Work in a thread that reads what a loop receives, to its end or until its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import IO

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.client.aio.async_local import unpacked
from holdfast.runtime.files.copied import Copied


def counted(stream: IO[bytes]) -> Copied:
    return Copied(bytes=len(stream.read()))


def test_the_whole_body_is_read() -> None:
    async def body() -> AsyncIterator[bytes]:
        for number in range(1000):
            await asyncio.sleep(0)
            yield bytes(number)

    assert asyncio.run(unpacked(body(), counted)).bytes == sum(range(1000))


def test_errors_come_out() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x"
        raise ProtocolError("cannot go on")

    def refusing(stream: IO[bytes]) -> Copied:
        raise PermissionError(stream.read(1).decode())

    with pytest.raises(ProtocolError, match="cannot go on"):
        asyncio.run(unpacked(body(), counted))
    with pytest.raises(PermissionError, match="x"):
        asyncio.run(unpacked(body(), refusing))


def test_a_cancelled_caller_does_not_wait_for_a_server_that_is_silent() -> None:
    closed: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            try:
                yield b"x"
                begun.set()
                await asyncio.Event().wait()
            finally:
                closed.append("closed")

        def work(stream: IO[bytes]) -> Copied:
            try:
                return counted(stream)
            finally:
                closed.append("over")

        task = asyncio.create_task(unpacked(body(), work))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert sorted(closed) == ["closed", "over"]
