"""The task record as JSON: compact, with its format number, and within a budget. Pure.

A record that does not fit is refused, never cut. Newer and damaged forms are distinguished, so that neither
is overwritten by accident.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task.task_record import FORMAT, TaskRecord

MOST_BYTES = 32 << 10
"""Bytes of a record as compact JSON: about 8000 tokens, more than a successor reads at once."""
_LONGEST_INPUT = 4 * MOST_BYTES
SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def dump(record: TaskRecord) -> dict[str, Any]:
    """Return the record as plain values, without empty fields.

    Raises:
        InvalidArgument: it is larger than `MOST_BYTES`.
    """
    plain_values = record.model_dump(mode="json", exclude_defaults=True)
    values: dict[str, Any] = {"format": FORMAT, **plain_values}
    size = len(compact(values))
    if size > MOST_BYTES:
        raise InvalidArgument(
            f"cannot keep the task record: it would take {size} bytes, {size - MOST_BYTES} too many",
            hint="`holdfast task drop` removes settled items; refer to files instead of quoting them",
        )
    return values


def compact(values: Mapping[str, Any]) -> bytes:
    """Return plain values as JSON without blanks."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def load(values: Any) -> TaskRecord:
    """Return the record described by plain values.

    Raises:
        InvalidArgument: a newer version wrote them, or they are not a record.
    """
    if not isinstance(values, dict):
        raise _unreadable("it is not a JSON object")
    number = values.get("format")
    if type(number) is int and number > FORMAT:
        raise InvalidArgument(
            f"cannot read the task record: a newer version wrote it (form {number}; this one reads {FORMAT})",
            hint="upgrade Holdfast; the record is kept as it is",
        )
    if type(number) is not int:
        raise _unreadable("its format number is missing")
    try:
        record = TaskRecord.model_validate(values)
    except ValidationError as error:
        raise _unreadable(why(error)) from error
    except RecursionError as error:
        raise _unreadable("it is nested too deeply") from error
    dump(record)
    return record


def parse(text: str | bytes) -> TaskRecord:
    """Return the record described by a JSON text; raises as `load` does."""
    if len(text) > _LONGEST_INPUT:
        raise _unreadable(f"it is longer than {_LONGEST_INPUT} bytes")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable("it is not valid JSON") from error
    return load(values)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the record."""
    made = TaskRecord.model_json_schema(mode="validation")
    return {"$schema": SCHEMA_ID, **made}


def why(error: ValidationError) -> str:
    """Return the first fault, and its place, in one line."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "as a whole"
    return plain(f"{where}: {first['msg'].removeprefix('Value error, ')}", 200)


def _unreadable(reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot read the task record: {reason}",
        hint="nothing was changed; `holdfast task show --json` shows the form",
    )
