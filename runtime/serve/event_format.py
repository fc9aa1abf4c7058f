"""Events of a stream as a client wants them: lines of JSON, or server-sent events.  Pure.

An event is a table with `event`, its kind. `next` or `seq`, if it has one, says where what follows begins: a
client that lost its connection continues there.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Mapping
from typing import Any, Literal

from holdfast.base import printable_json

Form = Literal["application/json", "application/x-ndjson", "text/event-stream"]
NDJSON: Form = "application/x-ndjson"
SSE: Form = "text/event-stream"
JSON: Form = "application/json"
Event = Mapping[str, Any]


def wanted(accept: str) -> Form:
    """Return the form that a client wants, by its Accept header; one answer at the end by default."""
    for each in accept.lower().split(","):
        kind = each.partition(";")[0].strip()
        if kind in (NDJSON, SSE):
            return NDJSON if kind == NDJSON else SSE
    return JSON


def written(event: Event, form: Form) -> bytes:
    """Return an event in its sent form."""
    data = printable_json.dumps(event, separators=(",", ":"))
    if form == NDJSON:
        return f"{data}\n".encode()
    place = event.get("next", event.get("seq"))
    identity = "" if place is None else f"id: {place}\n"
    return f"{identity}event: {event['event']}\ndata: {data}\n\n".encode()


def pulse(form: Form) -> bytes:
    """Return the keepalive that shows both sides that the connection lives."""
    return b'{"event":"keepalive"}\n' if form == NDJSON else b": keepalive\n\n"


def text(name: str, data: bytes) -> dict[str, str | None]:
    """Return bytes as fields of a table: as text, and in base64 as well if they are not UTF-8."""
    try:
        return {name: data.decode(), f"{name}_base64": None}
    except UnicodeDecodeError:
        return {
            name: data.decode("utf-8", "replace"),
            f"{name}_base64": base64.b64encode(data).decode("ascii"),
        }


def cut(data: bytes) -> tuple[bytes, bytes]:
    """Return the whole characters of UTF-8, and the beginning of one at the end."""
    end = len(data) - unfinished(data)
    return data[:end], data[end:]


def unfinished(data: bytes) -> int:
    """Return how many bytes at the end begin a UTF-8 character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-4:])
    return len(decoder.getstate()[0])
