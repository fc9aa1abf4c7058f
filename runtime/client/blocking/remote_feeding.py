"""Gives a program its input in a thread of its own, while the caller follows what it writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from holdfast.errors import HoldfastError


def begin(parts: Iterable[bytes], write: Callable[[bytes], object], close: Callable[[], None]) -> None:
    """Write the parts, and then the end. A program that does not want them ends the feeding."""

    def feed() -> None:
        try:
            for part in parts:
                write(part)
            close()
        except HoldfastError:
            return  # the caller that follows the program sees how it ended

    threading.Thread(target=feed, name="holdfast-input", daemon=True).start()
