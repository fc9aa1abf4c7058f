"""The lines that a client receives of an execution, from the events of its cell.  Pure.

Later versions of a display are not sent as they come, as in a progress bar: clients have no way to replace
one. The last version of each is sent at the end. What fails for a reason of ours is no error of the code: an
answer that has begun is cut, which clients take for what it is.
"""

from __future__ import annotations

import time
from typing import Any

from holdfast.base import printable_json
from holdfast.errors import HoldfastError, KernelDied
from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.interpreter.mime_results import result_fields
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult

Line = dict[str, Any]

MEDIA_TYPE = "application/json"
KEEPALIVE: Line = {"type": "keepalive"}
END: Line = {"type": "end_of_execution"}
MOST_VERSIONS = 50
"""Displays whose last version is kept. All of these versions have `MOST_VERSION_BYTES` at most."""
MOST_VERSION_BYTES = 8 << 20
NO_INPUT = "the code asks for input, which this interface has no way to give; it was interrupted"
_TOO_LARGE = "{} bytes of a result were left out: a result may have 8 MiB; write it to a file instead"
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
            return [*lines, error_line("KernelDied", e2b_errors.sentence(error)), END]
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
