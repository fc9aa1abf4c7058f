"""Validation of fields that the guest sends, one by one.  Pure.

The guest is hostile: a field of an unexpected type or size ends the call, whatever it means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from holdfast.base.text import plain
from holdfast.errors import ProtocolError
from holdfast.runtime.guest.wire.protocol import Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")
    FrameLike = Frame | Mapping[str, Any]
    """A frame, or an object in one."""


# Offsets count bytes; more than this (8 EiB) does not fit the integers of other tools.
GREATEST = 2**63 - 1


def head(frame: FrameLike) -> Mapping[str, Any]:
    """Return the fields."""
    return frame.head if isinstance(frame, Frame) else frame


def integer(frame: FrameLike, key: str, least: int = 0) -> int:
    """Return a whole number that is at least `least`."""
    value = head(frame).get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= GREATEST:
        raise _wrong(frame, key)
    return value


def optional_integer(frame: FrameLike, key: str, least: int = 0) -> int | None:
    """Return a whole number, or None."""
    return None if head(frame).get(key) is None else integer(frame, key, least)


def number(frame: FrameLike, key: str) -> float:
    """Return a number of seconds; 0 if it is left out."""
    value = head(frame).get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise _wrong(frame, key)
    return float(value)


def text(frame: FrameLike, key: str, default: str | None = None) -> str:
    """Return a string of at most a million characters."""
    value = head(frame).get(key, default)
    if not isinstance(value, str) or len(value) > 1_000_000:
        raise _wrong(frame, key)
    return value


def choice(frame: FrameLike, key: str, known: Sequence[T]) -> T:
    """Return one of the known values; None counts as a value that is left out."""
    value = head(frame).get(key)
    for one in known:
        if value == one:
            return one
    raise _wrong(frame, key)


def optional_text(frame: FrameLike, key: str) -> str | None:
    """Return a string, or None."""
    return None if head(frame).get(key) is None else text(frame, key)


def flag(frame: FrameLike, key: str) -> bool:
    """Return true or false; false if it is left out."""
    value = head(frame).get(key, False)
    if not isinstance(value, bool):
        raise _wrong(frame, key)
    return value


def table(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise ProtocolError(f"cannot understand the session: {what} is not an object")
    return value


def rows(frame: FrameLike, key: str) -> list[Mapping[str, Any]]:
    """Return a list of at most a thousand JSON objects."""
    value = head(frame).get(key, [])
    if not isinstance(value, list) or len(value) > 1000:
        raise _wrong(frame, key)
    return [table(item, key) for item in value]


def integers(frame: FrameLike, key: str) -> list[int]:
    """Return a list of at most a thousand whole numbers; empty if it is left out."""
    value = head(frame).get(key, [])
    if not isinstance(value, list) or len(value) > 1000:
        raise _wrong(frame, key)
    return [integer({"event": head(frame).get("event"), key: item}, key) for item in value]


def body(frame: Frame) -> Mapping[str, Any]:
    """Return the payload as a JSON object."""
    return table(json_of(frame), "a payload")


def json_of(frame: Frame) -> Any:
    """Return the payload as JSON."""
    try:
        return json.loads(frame.payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("cannot understand the session: a payload is not JSON") from error


def event(frame: Frame) -> str:
    """Return the kind of event of a frame."""
    return text(frame, "event")


def _wrong(frame: FrameLike, key: str) -> ProtocolError:
    kind = head(frame).get("event")
    named = plain(kind, 40) if isinstance(kind, str) else "answer"
    return ProtocolError(f"cannot understand the session: '{key}' of its '{named}' is not valid")
