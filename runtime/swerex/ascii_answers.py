"""Answers in JSON of which each character is in ASCII, whatever texts they have.  Pure."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


class AsciiAnswer(JSONResponse):
    """JSON in ASCII, in which halves of characters, as names of files and texts may have, can be sent."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, separators=(",", ":")).encode()
