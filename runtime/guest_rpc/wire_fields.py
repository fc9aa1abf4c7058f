"""Validation of fields that the guest sends, one by one.  Pure.

The guest is hostile: a field of an unexpected type or size ends the call, whatever it means.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

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
LONGEST_TEXT = 1_000_000


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
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
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


def texts(frame: FrameLike, key: str) -> tuple[str, ...]:
    """Return a list of at most a hundred thousand strings; empty if it is left out."""
    value = head(frame).get(key, [])
    if not isinstance(value, list) or len(value) > 100_000:
        raise _wrong(frame, key)
    if not all(isinstance(item, str) and len(item) <= LONGEST_TEXT for item in value):
        raise _wrong(frame, key)
    return tuple(value)


def text_table(frame: FrameLike, key: str) -> dict[str, str]:
    """Return an object of at most a hundred thousand strings; empty if it is left out."""
    found = table(head(frame).get(key, {}), key)
    texts({"event": head(frame).get("event"), key: list(found.values())}, key)
    return dict(found)


def value(kind: type[T], frame: FrameLike, /, **known: Any) -> T:
    """Return a value of a class: fields that are not `known` are read as their annotations say.

    One that is left out, or whose annotation is not in `READERS`, has the default of the class.
    """
    given = head(frame)
    for name, form in kind.__annotations__.items():
        if name in given and name not in known and form in READERS:
            known[name] = READERS[form](frame, name)
    try:
        return kind(**known)
    except TypeError:
        missing = [name for name in kind.__annotations__ if name not in known]
        raise _wrong(frame, missing[0]) from None


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


READERS: Mapping[str, Callable[[FrameLike, str], Any]] = {
    "int": integer,
    "int | None": optional_integer,
    "float": number,
    "str": text,
    "str | None": optional_text,
    "bool": flag,
    "tuple[str, ...]": texts,
    "list[str]": lambda frame, key: list(texts(frame, key)),
    "dict[str, str]": text_table,
    "Mapping[str, Any]": lambda frame, key: table(head(frame)[key], key),
}
"""Readers of fields, by the annotations of these in a class of values."""


def _wrong(frame: FrameLike, key: str) -> ProtocolError:
    kind = head(frame).get("event")
    named = plain(kind, 40) if isinstance(kind, str) else "answer"
    return ProtocolError(f"cannot understand the session: '{key}' of its '{named}' is not valid")
