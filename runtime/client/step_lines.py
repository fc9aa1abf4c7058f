"""The answer of a server that says what it is doing: its lines, read.  Pure.

See `serve.step_streams`, which writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import ProtocolError
from holdfast.runtime.client import http_call
from holdfast.runtime.operations.step import Step

MEDIA_TYPE = "application/x-ndjson"
HEADERS = {"Holdfast-Steps": "1"}
MOST_BYTES = 64 << 20
"""Of a line, the last of which is the answer."""


class StepLines:
    """The lines of one answer; `watcher` gets each step, and None at the end."""

    def __init__(self, watcher: Callable[[Step | None], None]) -> None:
        self._watcher = watcher
        self._begun = bytearray()
        self._last: dict[str, Any] | None = None

    def feed(self, data: bytes) -> None:
        """Take more of the answer.

        Raises:
            ProtocolError: it is not such an answer.
        """
        self._begun += data
        if len(self._begun) > MOST_BYTES:
            raise _unclear()
        if b"\n" not in data:
            return
        *lines, rest = bytes(self._begun).split(b"\n")
        self._begun = bytearray(rest)
        for line in lines:
            self._take(line)

    def answer(self) -> Any:
        """Return the answer, at the end.

        Raises:
            HoldfastError: the error that it reports; ProtocolError: there is none.
        """
        self._watcher(None)
        if self._last is None:
            raise _unclear()
        return http_call.settled(self._last["status"], self._last.get("answer"))

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            raise _unclear() from None
        if not isinstance(told, dict) or self._last is not None:
            raise _unclear()
        if isinstance(told.get("status"), int):
            self._last = told
            return
        step = told.get("step")
        if isinstance(step, dict) and isinstance(step.get("text"), str):
            self._watcher(
                Step(plain(step["text"], 300), _number(step.get("done")), _number(step.get("total")))
            )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unclear() -> ProtocolError:
    return ProtocolError("cannot understand the server: its lines are not steps and an answer")
