"""Arguments of calls, validated before anything is sent: texts, durations, callbacks.  Pure.

A wrong type is reported by its name where it was passed, not by whatever fails on it later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from holdfast.base import ids
from holdfast.errors import InvalidArgument
from holdfast.runtime.guest.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    Parameters = ParamSpec("Parameters")
    Result = TypeVar("Result")

FOREVER = 1e9
COROUTINE = 0x80
"""The flag of the code of a coroutine function, as `inspect` has it, which takes a while to load."""


def id_for(key: str | None) -> str:
    """Return the id of a new command or cell: random digits, or the id derived from its key."""
    if key is None:
        return ids.new_id()
    from holdfast.runtime.guest.identity.actor import id_of

    return id_of(key)


def text(value: object, what: str) -> str:
    """Check that an argument is text, and return it.

    Raises:
        InvalidArgument: it is something else; for a list of words the hint has the text.
    """
    if isinstance(value, str):
        return value
    import shlex

    words = value if isinstance(value, Sequence) and all(isinstance(word, str) for word in value) else ()
    hint = (
        f"give the text of a command, as `shlex.join` makes it: {shlex.join(words)[:200]!r}" if words else ""
    )
    raise InvalidArgument(f"cannot use this {what}: it must be text, not {type(value).__name__}", hint=hint)


def words(argv: Iterable[object]) -> list[str]:
    """Return a program and its arguments as text.

    Raises:
        InvalidArgument: they are a text, which would be taken apart into letters, or nothing.
    """
    if isinstance(argv, str | bytes) or not argv:
        raise InvalidArgument(
            "cannot run that: the program and its arguments must be a list",
            hint="`exec` runs the text of a shell command",
        )
    return [str(word) for word in argv]


def typed(value: object, what: str) -> bytes:
    """Return text or bytes to be typed, as bytes.

    Raises:
        InvalidArgument: it is neither.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return text(value, what).encode("utf-8", "surrogateescape")


def seconds(value: object, what: str) -> float | None:
    """Check a duration of more than 0 seconds, or None.

    Raises:
        InvalidArgument: it is neither.
    """
    found = _number(value, what)
    if found is not None and not found > 0:
        raise InvalidArgument(f"cannot use this {what}: it must be more than 0 seconds")
    return found


def patience(value: object, what: str) -> float | None:
    """Check a duration of 0 seconds or more, or None.

    Raises:
        InvalidArgument: it is neither.
    """
    found = _number(value, what)
    if found is not None and not found >= 0:
        raise InvalidArgument(f"cannot use this {what}: it must be 0 seconds or more")
    return found


def command(value: object) -> bytes:
    """Check the text of a command for the shell.

    Raises:
        InvalidArgument: it is not text, empty, too long, or has a NUL byte.
    """
    data = text(value, "command").encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise InvalidArgument("cannot run the command: it contains a NUL byte")
    if not data.strip():
        raise InvalidArgument(
            "cannot run the command: it is empty", hint="for example `holdfast exec S 'ls -l'`"
        )
    if len(data) > protocol.MAX_PAYLOAD:
        raise InvalidArgument(
            f"cannot run the command: it has {len(data)} bytes, the limit is {protocol.MAX_PAYLOAD}",
            hint="put it into a file of the session and run that",
        )
    return data


def awaits_nothing(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a method that refuses coroutine functions as callbacks up front."""

    @functools.wraps(method)
    def call(*args: Parameters.args, **how: Parameters.kwargs) -> Result:
        for value in (*args, *how.values()):
            callback(value)
        return method(*args, **how)

    return call


def callback(value: object) -> None:
    """Check that an argument is not a coroutine function.

    Raises:
        InvalidArgument: it is one.
    """
    code = getattr(value, "__code__", None)
    if code is not None and code.co_flags & COROUTINE:
        raise InvalidArgument(
            "cannot use a coroutine function as a callback here: nothing would await it",
            hint="use AsyncHoldfast, or a plain function",
        )


def _number(value: object, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(
            f"cannot use this {what}: it must be a number of seconds, not {type(value).__name__}"
        )
    if not value < FOREVER:
        raise InvalidArgument(f"cannot use this {what}: it must be less than {FOREVER:.0f} seconds")
    return float(value)
