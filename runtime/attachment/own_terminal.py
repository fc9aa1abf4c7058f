"""The terminal of this process as the person's end of an attachment."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Self

from holdfast.errors import InvalidArgument
from holdfast.runtime.attachment import local


class OwnTerminal:
    """Standard input and output, in raw mode; `wake` is readable with the number of each signal."""

    def __init__(self, stdin: int, stdout: int, wake: int) -> None:
        self._in, self._out, self._wake = stdin, stdout, wake
        self.encoding = local.ENCODING

    @classmethod
    @contextlib.contextmanager
    def entered(cls) -> Iterator[Self]:
        """Yield it; its mode is restored, however this ends.

        Raises:
            InvalidArgument: there is none.
        """
        stdin, stdout = sys.stdin.fileno(), sys.stdout.fileno()
        if not (os.isatty(stdin) and os.isatty(stdout)):
            raise InvalidArgument(
                "cannot attach: standard input or output is not a terminal",
                hint="programs use `holdfast exec`, `send` and `screen`",
            )
        with local.raw(stdin, stdout), local.signals() as wake:
            yield cls(stdin, stdout, wake)

    def descriptors(self) -> Sequence[int]:
        """Return what to wait for."""
        return self._in, self._wake

    def typed(self, ready: Collection[int]) -> bytes | None:
        """Return what was typed, empty once the terminal has hung up."""
        if self._in not in ready:
            return None
        try:
            return os.read(self._in, 65536)
        except OSError:
            return b""

    def resized(self, ready: Collection[int]) -> bool:
        """Return whether the terminal has another size.

        Raises:
            KeyboardInterrupt: this process is asked to end.
        """
        if self._wake not in ready:
            return False
        if any(number != signal.SIGWINCH for number in os.read(self._wake, 64)):
            raise KeyboardInterrupt
        return True

    def size(self) -> tuple[int, int]:
        """Return rows and columns."""
        return local.size(self._out)

    def write(self, data: bytes) -> None:
        """Show output."""
        local.write(self._out, data)
