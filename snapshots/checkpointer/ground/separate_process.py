"""Does something in a process of its own, which may change what it can see and do, and ends with it.

Knows nothing of what is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_REASON = 500
"""Characters of an error that are passed on."""


def carry_out(work: Callable[[], None], what: str) -> None:
    """Do it in a child and wait for that.

    Raises:
        OSError: says that `what` cannot be done, and what went wrong in the child.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        reason = b"it ended at once"
        try:
            os.close(reader)
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - the last line of a process of its own
            reason = str(error).encode("utf-8", "replace")[:_REASON]
        finally:
            os.write(writer, reason)
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        why = stream.read(_REASON)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise OSError(f"{what}: {why.decode('utf-8', 'replace') or 'it was killed'}")
