"""This process's standard streams, as a command that runs elsewhere needs them: its terminal, its pipes.

Input is passed on only to commands that read it: a loop in a shell script that reads a list keeps its lines.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from holdfast.errors import EngineUnavailable
from holdfast.runtime.attachment import local as local_terminal
from holdfast.runtime.terminal.resets import BELOW, LEAVE

Kind = Literal["none", "pipe", "terminal"]
INPUT, OUTPUT, ERRORS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CallerStreams:
    """What the three streams are; those that are a terminal are one terminal elsewhere."""

    input: Kind
    output: Kind
    errors: Kind

    @classmethod
    def of_process(cls, *, reads: bool) -> CallerStreams:
        """Look at the streams of this process.

        Args:
            reads: whether the command reads standard input even when that is not a terminal.
        """
        output, errors = _kind(OUTPUT), _kind(ERRORS)
        if output == "terminal" and os.isatty(INPUT):
            # Who reads from a terminal in the background is stopped, see tcgetpgrp(3).
            return cls("terminal" if os.tcgetpgrp(INPUT) == os.getpgrp() else "none", output, errors)
        return cls("pipe" if reads else "none", output, errors)

    @property
    def described(self) -> dict[str, object]:
        """The streams, and the size of the terminal, for the doorkeeper."""
        size = local_terminal.size(OUTPUT)
        return {"input": self.input, "output": self.output, "errors": self.errors, "size": size}

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Pass every key on, if the input is a terminal, and restore it at the end."""
        if self.input != "terminal":
            yield
            return
        with local_terminal.raw_keys(INPUT, termios.TCSADRAIN):
            try:
                yield
            except EngineUnavailable:
                with suppress(OSError):
                    local_terminal.write(OUTPUT, LEAVE + BELOW)  # what nothing undoes any more
                raise


def _kind(descriptor: int) -> Kind:
    return "terminal" if os.isatty(descriptor) else "pipe"
