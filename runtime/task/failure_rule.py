"""One rule that recognizes a kind of failure by the output of commands, and a user's own rules, checked.

They are in `failure-rules.json` in the home, a list as `parse_rules` takes it. Expressions are in RE2's
syntax: their time only grows with the length of the text, which is the session's.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from typing import Any

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.scrubbing.rule import compiled
from holdfast.runtime.task.task_record import one_line

MOST_RULES = 100
LONGEST_PATTERN = 2000
FILE = "failure-rules.json"
LARGEST = 1 << 20
"""Bytes of the file."""


@dataclass(frozen=True, slots=True)
class FailureRule:
    """A kind of failure.

    Attributes:
        name: the name that a classification gives as its reason.
        failure_type: the kind; several rules can recognize the same kind.
        pattern: of RE2, searched in the output line by line; its group `what` is the detail, else the line.
        focus: where to look next; `{what}` is the group.
        command: of RE2, in the command itself; empty for any.
        codes: exit codes with which it counts; () for any other than 0.
        last: the last match counts, not the first.
        explains_crash: it counts before the signal that ended the program.
    """

    name: str
    failure_type: str
    pattern: str
    focus: str
    command: str = ""
    codes: tuple[int, ...] = ()
    last: bool = False
    explains_crash: bool = False


def failure_rule(name: str, failure_type: str, focus: str, *patterns: str, **more: Any) -> FailureRule:
    """Return a rule that any of several patterns matches."""
    return FailureRule(name, failure_type, "|".join(patterns), focus, **more)


def parse_rules(values: Any) -> tuple[FailureRule, ...]:
    """Return a user's rules from plain values: a list of objects with the fields of `FailureRule`.

    Raises:
        InvalidArgument: one cannot be used; the message names it.
    """
    if not isinstance(values, list) or len(values) > MOST_RULES:
        raise InvalidArgument(f"cannot use the failure rules: they are not a list of at most {MOST_RULES}")
    return tuple(_checked(number, each) for number, each in enumerate(values, start=1))


def _checked(number: int, given: Any) -> FailureRule:
    if not isinstance(given, dict):
        raise _refused(number, "it is not an object")
    known = {"name", "failure_type", "pattern", "focus", "command", "codes", "last"}
    if unknown := sorted(set(given) - known):
        raise _refused(number, f"it does not have a field '{unknown[0]}'")
    texts: dict[str, Any] = {
        key: _text(number, given, key) for key in ("name", "failure_type", "pattern", "focus")
    }
    command, codes, last = given.get("command", ""), given.get("codes", []), given.get("last", False)
    if not isinstance(codes, list) or not all(type(code) is int for code in codes):
        raise _refused(number, "its 'codes' are not a list of numbers")
    if not isinstance(command, str) or not isinstance(last, bool):
        raise _refused(number, "its 'command' is not a text, or its 'last' is neither true nor false")
    for key, pattern in (("pattern", texts["pattern"]), ("command", command)):
        _check_pattern(number, key, pattern)
    return FailureRule(**texts, command=command, codes=tuple(codes), last=last)


def _text(number: int, given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise _refused(number, f"its '{key}' is not a text")
    try:
        return value if key == "pattern" else one_line(value)
    except ValueError as error:
        raise _refused(number, f"its '{key}': {error}") from error


def _check_pattern(number: int, key: str, pattern: str) -> None:
    if len(pattern) > LONGEST_PATTERN:
        raise _refused(number, f"its '{key}' has more than {LONGEST_PATTERN} characters")
    try:
        compiled(pattern.encode())
    except ValueError as error:
        raise _refused(number, f"its '{key}' cannot be used: {error}") from None


def _refused(number: int, why: str) -> InvalidArgument:
    return InvalidArgument(f"cannot use failure rule {number}: {why}")


def read_rules(home: Home) -> tuple[FailureRule, ...]:
    """Return the rules of a home; an empty list without a file.

    Raises:
        StoreError: the file cannot be read, or other users can change it.
        InvalidArgument: a rule in it cannot be used.
    """
    path = home.root / FILE
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    if stat.S_IMODE(mode) & 0o022:
        raise StoreError(f"cannot use {path}: others can change it", hint=f"`chmod 600 {path}`")
    try:
        if len(data) > LARGEST:
            raise InvalidArgument(f"it has more than {LARGEST >> 20} MiB")
        return parse_rules(json.loads(data))
    except (InvalidArgument, ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, InvalidArgument) else "it is not valid JSON"
        raise InvalidArgument(
            f"cannot use {path}: {why}", hint="docs/failures.md describes its form"
        ) from error
