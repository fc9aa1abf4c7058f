"""When a call whose connection was lost connects again, and when it gives up.  Pure.

A server that is being started again refuses connections until it listens. It is waited for longer than one
that accepts them and fails.
"""

from __future__ import annotations

import errno

ATTEMPTS = 6
"""To connect again, within some six seconds."""
ATTEMPTS_IF_REFUSED = 9
"""The same while nothing listens there, within some twenty seconds."""
LONGEST_PAUSE = 5.0


def pause(attempt: int, error: BaseException) -> float | None:
    """Return the seconds until the next attempt; None to give up.

    Args:
        attempt: how many have failed since the call last heard of the server, this one included.
        error: why it failed.
    """
    if attempt >= (ATTEMPTS_IF_REFUSED if is_refusal(error) else ATTEMPTS):
        return None
    return min(LONGEST_PAUSE, 0.1 * (1 << attempt))


def is_refusal(error: BaseException) -> bool:
    """Return whether nothing listens at the server's address, or at none of the addresses of its name."""
    if isinstance(error, ConnectionRefusedError | FileNotFoundError):
        return True
    # asyncio reports several addresses that failed in different words as one error without a number.
    parts = str(error).split("[Errno ")[1:] if isinstance(error, OSError) and error.errno is None else []
    return bool(parts) and all(part.startswith(f"{errno.ECONNREFUSED}]") for part in parts)
