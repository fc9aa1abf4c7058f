"""The format number of a stored document: distinguishes newer versions from damage. Pure.

Every document of a snapshot has its form as a number in the field `format`. A version that writes what this
one cannot read raises the number; an unknown field under a known number is damage.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from holdfast.errors import SnapshotNewer

FIELD = "format"
_GREATEST = 2**31
HINT = "upgrade Holdfast"


def newer_than(number: Any, known: int) -> bool:
    """Check whether this is the number of a form after the known one."""
    return type(number) is int and known < number < _GREATEST


def difference(error: ValidationError) -> str:
    """Return the forms written and read, in words, if a document is invalid for being newer; else empty.

    The document itself can be meant, or one that it contains.
    """
    for each in error.errors():
        known = [int(found) for found in re.findall(r"\d+", str(each.get("ctx", {}).get("expected", "")))]
        if each["loc"] and each["loc"][-1] == FIELD and known and newer_than(each["input"], max(known)):
            return in_words(each["input"], max(known))
    return ""


def in_words(number: int, known: int) -> str:
    """Return the form written and the newest that is read, for a message."""
    return f"(form {number}; this one reads {known})"


def refusal(snapshot: str, forms: str, part: str = "it") -> SnapshotNewer:
    """Return the error about a part of a snapshot; `forms` as `difference` returns them."""
    return SnapshotNewer(
        f"cannot use snapshot {snapshot}: a newer version of Holdfast wrote {part} {forms}", hint=HINT
    )
