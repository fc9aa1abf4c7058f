"""Labels of sessions: callers' own names for them, in pairs of a key and a text. Pure.

They mean nothing to the product, and are not shown to the session. On the path of `ls`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

MOST = 50
LONGEST = 200
"""Characters of a value."""
KEY = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}"
_KEY = re.compile(KEY, re.ASCII)


def parse(given: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Return labels from a mapping, or from texts `KEY=VALUE`.

    Raises:
        InvalidArgument: one is not valid, or there are more than 50.
    """
    if isinstance(given, str | bytes):
        raise InvalidArgument("cannot read the labels: give a mapping, or a list of KEY=VALUE")
    pairs = list(given.items()) if isinstance(given, Mapping) else [_pair(each) for each in given]
    for key, value in pairs:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise InvalidArgument(
                f"cannot use label {plain(str(key), 80)!r}: its key must be 1 to 63 letters, digits, `.`, "
                "`_`, `/` and `-`, and begin with a letter or digit"
            )
        if not isinstance(value, str) or len(value) > LONGEST or value != plain(value, LONGEST):
            raise InvalidArgument(
                f"cannot use label {key}: its value must be a line of at most {LONGEST} characters"
            )
    if len(pairs) > MOST:
        raise InvalidArgument(f"cannot use {len(pairs)} labels: a session has at most {MOST}")
    return dict(pairs)


def wanted(given: Mapping[str, str | None] | Sequence[str] | None) -> dict[str, str | None]:
    """Return the requested labels, from a mapping or from texts `KEY=VALUE` or `KEY`; None is any value.

    Raises:
        InvalidArgument: one is not valid.
    """
    if given is None:
        return {}
    if isinstance(given, str | bytes):
        raise InvalidArgument("cannot read the labels: give a mapping, or a list of KEY=VALUE")
    found: dict[str, str | None] = {}
    pairs = given.items() if isinstance(given, Mapping) else [(each, "") for each in given]
    for key, value in pairs:
        if isinstance(given, Mapping):
            parse({key: "" if value is None else value})
            found[key] = value
        elif "=" in key:
            found |= parse([key])
        else:
            parse({key: ""})
            found[key] = None
    return found


def has(labels: Mapping[str, str], asked: Mapping[str, str | None]) -> bool:
    """Check whether a session with these labels is one of the requested ones."""
    return all(key in labels and value in (None, labels[key]) for key, value in asked.items())


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not equals:
        raise InvalidArgument(f"cannot read label {plain(str(text), 80)!r}: it is not KEY=VALUE")
    return key, value
