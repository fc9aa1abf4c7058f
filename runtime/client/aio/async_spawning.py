"""pexpect over a URL: not from coroutines, which it would block."""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.errors import OnlyInProcess


async def spawn(_session: object, *_args: Any, **_how: Any) -> NoReturn:
    """Refuse: pexpect blocks its caller.

    Raises:
        OnlyInProcess: always.
    """
    raise OnlyInProcess(
        "cannot spawn from a coroutine: pexpect blocks its caller",
        hint="use `RemoteHoldfast` in a thread, or `detach` and the job's `wait` and `send`",
    )
