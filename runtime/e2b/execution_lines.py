"""The lines that a client receives of an execution, from the events of its cell.  Pure.

Later versions of a display are not sent as they come, as in a progress bar: clients have no way to replace
one. The last version of each is sent at the end. The session decides what is in a result: whatever it is,
the fields are of the types that clients expect, and what is not of those is among the `extra` ones, by its
MIME type. What fails for a reason of ours is no error of the code: an answer that has begun is cut, which
clients take for what it is.
"""

from __future__ import annotations

import base64
import binascii
import math
import time
from collections.abc import Mapping
from typing import Any

from holdfast.base import printable_json
from holdfast.errors import HoldfastError, KernelDied
from holdfast.runtime.e2b import connect_wire
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult

NAMES = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/latex": "latex",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "application/javascript": "javascript",
}
"""The fields that are text."""
OBJECTS = {"e2b/data": "data", "e2b/chart": "chart"}
"""The fields that are objects: columns of a data frame, and what a chart shows."""
JSON = "application/json"
_BASE64 = frozenset({"image/png", "image/jpeg", "application/pdf"})
_QUOTES = "'\""
TOO_DEEP = "[a value was left out: it is nested too deeply]"


def result_fields(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result, among them only what the bundle has."""
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for mime, value in bundle.items():
        name, text = NAMES.get(mime), _text(value)
        if mime == JSON:
            fields["json"] = finite(value)
        elif mime in OBJECTS and isinstance(value, dict):
            fields[OBJECTS[mime]] = finite(value)
        elif name is None or text is None or (mime in _BASE64 and not _is_base64(text)):
            extra[mime] = finite(value)
        else:
            fields[name] = _unquoted(text) if name == "text" else text
    return fields | ({"extra": extra} if extra else {})


def finite(value: Any) -> Any:
    """Return a value that JSON has: its numbers are finite, others are null."""
    try:
        return _finite(value)
    except RecursionError:
        return TOO_DEEP


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value


def _text(value: Any) -> str | None:
    """Return a text of a bundle, which may also be a list of its lines; None if it is something else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return None


def _is_base64(text: str) -> bool:
    """Return whether it is base64, with or without line ends."""
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _unquoted(text: str) -> str:
    """Return the text of a value without the quotes of a string, as clients know it."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    return text[1:-1] if quoted else text


Line = dict[str, Any]

MEDIA_TYPE = "application/json"
KEEPALIVE: Line = {"type": "keepalive"}
END: Line = {"type": "end_of_execution"}
MOST_VERSIONS = 50
"""Displays whose last version is kept. All of these versions have `MOST_VERSION_BYTES` at most."""
MOST_VERSION_BYTES = 8 << 20
NO_INPUT = "the code asks for input, which this interface cannot give; it was interrupted"
_TOO_LARGE = "{} bytes of a result were left out: the limit is 8 MiB; write it to a file instead"
_LOST = "{} bytes of output were lost: they came faster than they were read"
_EARLY = {
    "restarted": ("ContextRestarted", "the context was restarted while the code ran"),
    "interrupted": ("KeyboardInterrupt", "the code was interrupted"),
}


def written(line: Line) -> bytes:
    """Return a line as it is sent."""
    return f"{printable_json.dumps(line, separators=(',', ':'))}\n".encode()


def error_line(name: str, value: str, traceback: str = "") -> Line:
    """Return the line that says that the code failed, or could not be run."""
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


def note(text: str) -> Line:
    """Return the line for something of ours that the code has not written: no error, which would be its."""
    return {"type": "stderr", "text": f"[holdfast: {text}]\n", "timestamp": time.time_ns()}


class ExecutionLines:
    """The lines of one execution."""

    def __init__(self) -> None:
        self._asked = False
        self._raised: Line | None = None
        """The error of the code; clients keep the last one that they receive."""
        self._left_out = 0
        self._versions: dict[str, tuple[Line, int]] = {}

    def asked(self) -> None:
        """Note that the code asked for input: its end is reported as that, and not as an interrupt."""
        self._asked = True

    def heard(self, event: CellEvent, at: int) -> list[Line]:
        """Return the lines for an event; `at` is the time in nanoseconds since 1970."""
        if event.kind == "stream":
            name = "stderr" if event.name == "stderr" else "stdout"
            return [{"type": name, "text": event.text, "timestamp": at}]
        if event.error is not None:
            trace = "\n".join(event.error.traceback)
            self._raised = error_line(event.error.ename, event.error.evalue, trace)
            return [] if self._asked else [self._raised]
        if event.kind in ("display_data", "execute_result"):
            self._left_out += event.left_out
            return [_result(event)]
        if event.kind == "update_display_data":
            self._keep(event)
        return []

    def ended(self, result: CellResult) -> list[Line]:
        """Return the last lines."""
        lines = [line for line, _ in self._versions.values()]
        if self._asked and result.status != "ok":
            lines.append(error_line("StdinNotImplementedError", NO_INPUT))
        elif self._raised is not None:
            lines += [self._raised] if self._asked else []
        elif result.status in _EARLY:
            lines.append(error_line(*_EARLY[result.status]))
        if self._left_out:
            lines.append(note(_TOO_LARGE.format(self._left_out)))
        if result.lost:
            lines.append(note(_LOST.format(result.lost)))
        if result.execution_count is not None:
            lines.append({"type": "number_of_executions", "execution_count": result.execution_count})
        return [*lines, END]

    def failed(self, error: HoldfastError) -> list[Line] | None:
        """Return the last lines of an execution that ended otherwise; None if its answer is to be cut.

        Input that there is none of, and a kernel that ends, are for the code to know; others are failures of
        ours.
        """
        lines = [line for line, _ in self._versions.values()]
        if self._asked:
            return [*lines, error_line("StdinNotImplementedError", NO_INPUT), END]
        if isinstance(error, KernelDied):
            return [*lines, error_line("KernelDied", connect_wire.sentence(error)), END]
        return None

    def _keep(self, event: CellEvent) -> None:
        id_ = event.transient.get("display_id")
        if not isinstance(id_, str):
            return
        self._left_out += event.left_out
        line = _result(event)
        self._versions.pop(id_, None)
        self._versions[id_] = line, len(written(line))
        while (
            len(self._versions) > MOST_VERSIONS
            or sum(size for _, size in self._versions.values()) > MOST_VERSION_BYTES
        ):
            self._left_out += self._versions.pop(next(iter(self._versions)))[1]


def _result(event: CellEvent) -> Line:
    main = event.kind == "execute_result"
    return {"type": "result", **result_fields(event.data), "is_main_result": main}
