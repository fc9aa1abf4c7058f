"""Jupyter messages turned into the events of a cell, and the life of a cell.

Pure code: message contents in, frames and states out. It does not know sockets or processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest.wire.protocol import MAX_PAYLOAD, Frame

STREAM_CHUNK = 1 << 20
LONGEST = 1_000_000
"""Characters of the name or the message of an error: the host takes no more of a text."""
_NO_MORE = "[without a reason from the kernel; often it cannot parse the code]"
_RICH = ("display_data", "execute_result", "update_display_data")


class CellStatus(StrEnum):
    """The outcome of a cell."""

    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    DIED = "died"
    TIMEOUT = "timeout"
    RESTARTED = "restarted"


def events_of(kind: str, content: Mapping[str, Any]) -> Iterator[Frame]:
    """Yield the events that a message on the iopub or stdin channel means for the client of a cell."""
    if kind == "stream":
        text = _text(content.get("text")).encode("utf-8", "replace")
        for at in range(0, len(text), STREAM_CHUNK):
            yield Frame({"event": "stream", "name": _text(content.get("name"))}, text[at : at + STREAM_CHUNK])
    elif kind in _RICH:
        parts = {key: content.get(key) for key in ("data", "metadata", "execution_count", "transient")}
        yield Frame({"event": kind}, _bounded(parts))
    elif kind == "clear_output":
        yield Frame({"event": kind}, _json({"wait": bool(content.get("wait"))}))
    elif kind == "error":
        yield Frame({"event": "error_output"}, _error(content))
    elif kind == "input_request":
        prompt = _text(content.get("prompt"))[: STREAM_CHUNK // 8]
        yield Frame({"event": kind, "prompt": prompt, "password": bool(content.get("password"))})


def leaves(reply: Mapping[str, Any]) -> bool:
    """Check whether a cell made its kernel end, as `exit()` does: IPython requests that in its reply."""
    asked = reply.get("payload")
    return isinstance(asked, list) and any(
        isinstance(one, dict) and one.get("source") == "ask_exit" and not one.get("keepkernel")
        for one in asked
    )


@dataclass(slots=True)
class Cell:
    """One piece of code on its way through a kernel.

    It is over when the reply has come *and* the kernel has reported that it is idle: output can come after
    the reply, and on a different channel.
    """

    id: str
    timeout: float | None = None
    epoch: int = 0
    started: bool = False
    status: CellStatus | None = None
    execution_count: int | None = None
    refusal: str = ""
    interrupted: bool = False
    timed_out: bool = False
    raised: bool = False
    _failure: dict[str, Any] | None = field(default=None, repr=False)
    _reply: CellStatus | None = field(default=None, repr=False)
    _idle: bool = False

    @property
    def over(self) -> bool:
        """True if its outcome is known."""
        return self.status is not None or bool(self.refusal)

    @property
    def settled(self) -> bool:
        """True if the kernel has finished with it, possibly after a timeout ended it."""
        return self._reply is not None and self._idle

    def replied(self, content: Mapping[str, Any]) -> None:
        """Process the kernel's reply."""
        count = content.get("execution_count")
        self.execution_count = count if isinstance(count, int) else None
        self._reply = self._outcome(content)
        if content.get("status") == "error" and not self.raised:
            self._failure = {name: content.get(name) for name in ("ename", "evalue", "traceback")}
        self._settle()

    def idle(self) -> None:
        """Note that the kernel became idle after it."""
        self._idle = True
        self._settle()

    def unshown(self) -> Iterator[Frame]:
        """Yield the error of a cell that has settled, if the kernel names it in its reply alone.

        Deno's does so for code that it cannot parse. `raised` says whether it has shown one.
        """
        failure, self._failure = self._failure, None
        if self.status is not CellStatus.ERROR or self.raised or failure is None:
            return
        self.raised = True
        if not failure["traceback"]:
            line = f"{_cut(_text(failure['ename']))}: {_cut(_text(failure['evalue']))}"
            failure["traceback"] = [line, _NO_MORE]
        yield from events_of("error", failure)

    def end(self, status: CellStatus) -> None:
        """End it from outside. The first outcome stays."""
        if not self.over:
            self.status = status

    def _settle(self) -> None:
        if self.settled and self._reply:
            self.end(self._reply)

    def _outcome(self, content: Mapping[str, Any]) -> CellStatus:
        match content.get("status"):
            case "ok":
                return CellStatus.OK
            case "error":
                if content.get("ename") == "KeyboardInterrupt" and (self.timed_out or self.interrupted):
                    return CellStatus.TIMEOUT if self.timed_out else CellStatus.INTERRUPTED
                return CellStatus.ERROR
            case _:  # aborted
                return CellStatus.INTERRUPTED


def _error(content: Mapping[str, Any]) -> bytes:
    trace = content.get("traceback")
    lines = [_text(line) for line in trace] if isinstance(trace, list) else []
    named = {name: _cut(_text(content.get(name))) for name in ("ename", "evalue")}
    error = {**named, "traceback": lines}
    data = _json(error)
    if len(data) > MAX_PAYLOAD:
        note = f"[the traceback of {len(data)} bytes was left out]"
        data = _json({**named, "traceback": [note]})
    return data


def _bounded(parts: dict[str, Any]) -> bytes:
    data = _json(parts)
    if len(data) <= MAX_PAYLOAD:
        return data
    note = f"[an output of {len(data)} bytes was left out: the limit is {MAX_PAYLOAD}]"
    return _json({**parts, "data": {"text/plain": note}, "metadata": {}, "left_out": len(data)})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode(
        "utf-8", "replace"
    )


def _cut(text: str) -> str:
    """Return the text of an error in the form that a client accepts."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 100]}[{len(text) - LONGEST + 100} characters were left out]"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
