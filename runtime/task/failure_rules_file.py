"""A user's rules for failures: `failure-rules.json` in the home, a list as `parse_rules` takes it."""

from __future__ import annotations

import json
import stat

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.task.failure_rule import FailureRule, parse_rules

NAME = "failure-rules.json"
LARGEST = 1 << 20
"""Bytes of the file."""


def read(home: Home) -> tuple[FailureRule, ...]:
    """Return the rules of a home; an empty list without a file.

    Raises:
        StoreError: the file cannot be read, or other users can change it.
        InvalidArgument: a rule in it cannot be used.
    """
    path = home.root / NAME
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
