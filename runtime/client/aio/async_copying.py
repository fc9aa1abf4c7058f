"""Lets work that reads a stream read the body of an answer: in a thread, for which the loop fetches parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from io import BufferedReader
from typing import IO

from holdfast.runtime.client.part_stream import PartStream
from holdfast.runtime.files.copied import Copied


async def unpacked(body: AsyncIterator[bytes], unpack: Callable[[IO[bytes]], Copied]) -> Copied:
    """Return what the work makes of the body. If the caller is cancelled, it finds the body cut short."""
    loop = asyncio.get_running_loop()
    left, fetching = False, None

    async def following() -> bytes | None:
        nonlocal fetching
        fetching = asyncio.current_task()
        return None if left else await anext(body, None)

    stream = PartStream(lambda: asyncio.run_coroutine_threadsafe(following(), loop).result())
    work = asyncio.create_task(asyncio.to_thread(unpack, BufferedReader(stream, 1 << 18)))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        left = True
        if fetching is not None:
            fetching.cancel()
        with suppress(Exception, asyncio.CancelledError):  # it failed, since the body was cut short
            await work
        raise
