"""Answers in JSON that may have texts of any bytes: names of files, entries that a session wrote.  Pure."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from holdfast.base import printable_json


class PrintableAnswer(JSONResponse):
    """A body in JSON. What is not UTF-8 is a lone surrogate, as `os.fsdecode` makes it, and is escaped."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return printable_json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
