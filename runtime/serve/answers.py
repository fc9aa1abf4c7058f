"""The answers that many paths have, as the OpenAPI document describes them.  Pure."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from holdfast.runtime.serve.models.base_models import ErrorAnswer

_REASONS = {
    400: "An argument is not valid.",
    401: "The token is missing or wrong.",
    403: "The session's user may not do that with the file, or pages of that origin may not use this.",
    404: "There is no such session, snapshot, shell, command, job, program or file.",
    405: "The path does not have this method.",
    408: "The rest of the body does not arrive.",
    409: "The session or snapshot is in a state in which that is not possible.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server has another name.",
    422: "The request has another form.",
    429: "There are too many requests.",
    500: "The server failed; the line in its log has the request's id.",
    502: "The session does not answer, or not as it should.",
    503: "The server does as much at once as it may, or no engine answers.",
    507: "The snapshots would exceed their quota.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text} for status, text in _REASONS.items()
}


ITEM = "x-itemSchema"
"""The key of the schema of each item of a stream: `itemSchema` of OpenAPI 3.2, which 3.1 does not allow."""
_EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {"event": {"type": "string", "description": "Its kind."}},
    "required": ["event"],
}
EVENTS: dict[str, Any] = {
    "application/x-ndjson": {ITEM: _EVENT},
    "text/event-stream": {
        ITEM: {
            "type": "object",
            "properties": {
                "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": _EVENT},
                "event": {"type": "string", "description": "Its kind."},
                "id": {"type": "string", "description": "Where what follows begins: `Last-Event-ID`."},
            },
            "required": ["data", "event"],
        }
    },
}
"""The forms in which events are sent, by media type."""


def streamed(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a path that answers with events if the client accepts them."""
    return {
        200: {
            "model": model,
            "description": "The outcome; or events as they come, the outcome as the last one.",
            "content": EVENTS,
        }
    }
