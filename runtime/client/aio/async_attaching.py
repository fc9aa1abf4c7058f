"""A person's terminal joined to a session's over a URL: not while an event loop runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import OnlyInProcess
from holdfast.runtime.client.aio.async_transport import AsyncTransport


async def attached(_transport: AsyncTransport, _session: str, _how: Mapping[str, Any]) -> str:
    """Refuse: signals and the modes of a terminal belong to the whole process.

    Raises:
        OnlyInProcess: always.
    """
    raise OnlyInProcess(
        "cannot attach while an event loop runs: the terminal is the whole process's",
        hint="use `RemoteHoldfast`, or `holdfast attach`",
    )
