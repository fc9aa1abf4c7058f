"""Gives a program its input in a task of its own, while the caller follows what it writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable

from holdfast.errors import HoldfastError

_feeding: set[asyncio.Task[None]] = set()


def begin(
    parts: Iterable[bytes] | AsyncIterable[bytes],
    write: Callable[[bytes], Awaitable[object]],
    close: Callable[[], Awaitable[None]],
) -> None:
    """Write the parts, and then the end. A program that does not want them ends the feeding."""

    async def feed() -> None:
        try:
            if isinstance(parts, AsyncIterable):
                async for part in parts:
                    await write(part)
            else:
                for part in parts:
                    await write(part)
            await close()
        except HoldfastError:
            return  # the caller that follows the program sees how it ended

    task = asyncio.get_running_loop().create_task(feed())
    _feeding.add(task)  # the loop itself holds tasks weakly
    task.add_done_callback(_feeding.discard)
