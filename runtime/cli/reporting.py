"""The end of a command line: every error has been shown, and has an exit code."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from holdfast.errors import HoldfastError, Interrupted
from holdfast.runtime.cli import printing

INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Exit(Exception):
    """The end of a verb with an exit code, from where it cannot return one."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def wants_json(given: Sequence[str]) -> bool:
    """Return whether a command line wants errors as JSON; words after `--` belong to a command."""
    own = given[: given.index("--")] if "--" in given else given
    return "--json" in own


def interrupted(error: KeyboardInterrupt) -> Interrupted:
    """Return Ctrl-C as an error."""
    return Interrupted("interrupted", hint="; ".join(getattr(error, "__notes__", [])))


def reported(call: Callable[[], int], *, as_json: bool) -> int:
    """Return the exit code of a call; show the error that ends it."""
    try:
        try:
            return call()
        except KeyboardInterrupt as error:
            raise interrupted(error) from error
    except Exit as end:
        return end.code
    except HoldfastError as error:
        printing.fail(error, as_json=as_json)
        return INTERRUPTED if isinstance(error, Interrupted) else 1
    except OSError as error:
        return unwritten(error)


def is_of_output(error: OSError) -> bool:
    """Return whether an error concerns standard output: its reader has left, or the disk is full."""
    return isinstance(error, BrokenPipeError) or (error.filename is None and error.errno in _FULL)


def unwritten(error: OSError) -> int:
    """Return the exit code if standard output could not be written, as on a full disk, and report that.

    A reader that has left needs no message. Other refusals of the system are errors of this program.
    """
    if not is_of_output(error):
        raise error
    if not isinstance(error, BrokenPipeError):
        printing.fail(HoldfastError(f"cannot write the output: {error.strerror}"), as_json=False)
    printing.mute()
    return 1
