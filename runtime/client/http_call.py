"""Requests and answers of a server: whole, in parts, or with steps. Pure.

A transport sends and receives them. `serve.step_streams` writes the lines of steps.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.client import http_call
from holdfast.runtime.client.client_errors import error_of
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.operations.step import Step


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One request. Parameters and fields that are None are left out."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None

    @property
    def query(self) -> dict[str, Any]:
        """Its parameters as they are sent.

        Raises:
            InvalidArgument: one has bytes that are not UTF-8, as file names can.
        """
        given = {name: value for name, value in self.params.items() if value is not None}
        for name, value in given.items():
            if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
                raise InvalidArgument(
                    f"cannot send this {name} over a URL: it is not UTF-8", hint="a command can use it"
                )
        return {
            name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()
        }

    @property
    def content(self) -> bytes | None:
        """Its body as it is sent."""
        return None if self.body is None else json.dumps(self.body).encode()


def place(*parts: str) -> str:
    """Return the path of a resource under `/v1`; the parts can have any characters."""
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields of a body that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def typed_text(text: str | bytes) -> dict[str, Any]:
    """Return the body that types a text.

    Raises:
        InvalidArgument: it is neither text nor bytes.
    """
    return {"text": call_arguments.typed(text, "text").decode()}


def session_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a new session as a body has them: plain values, and mounts as texts."""
    return {name: _plain(value) for name, value in options.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return (
        [str(each) for each in value] if isinstance(value, Iterable) and not isinstance(value, str) else value
    )


def answer(status: int, content: bytes) -> Any:
    """Return a server's answer; None if it is empty.

    Raises:
        HoldfastError: the error that it reports.
    """
    try:
        told = json.loads(content) if content else None
    except (ValueError, RecursionError):
        raise ProtocolError(f"cannot understand the server: it answered {status}, and not in JSON") from None
    return settled(status, told)


def settled(status: int, told: Any) -> Any:
    """Return an answer that was read; raises as `answer` does."""
    if status >= 400:
        raise error_of(told)
    return told


def parted(path: str, *, folder: bool) -> tuple[str, str]:
    """Return the folder in which a path is, and its name there.

    Raises:
        InvalidArgument: no file can have that name, and it is not for a folder.
    """
    above, slash, name = (path.rstrip("/") if folder else path).rpartition("/")
    if not folder and name in ("", ".", "..", "~"):
        raise InvalidArgument(
            f"cannot copy to '{plain(path, 200)}': that is a folder", hint="give the name of the file as well"
        )
    return above or slash or ".", name


class PartStream(io.RawIOBase):
    """Reads parts of any size, empty ones included. `following` returns the next one, and None at the end."""

    def __init__(self, following: Callable[[], bytes | None]) -> None:
        super().__init__()
        self._following = following
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes, and return their number."""
        while not self._left:
            part = self._following()
            if part is None:
                return 0
            self._left = memoryview(part)
        view = memoryview(buffer)  # type: ignore[arg-type]
        size = min(len(view), len(self._left))
        view[:size], self._left = self._left[:size], self._left[size:]
        return size


PATIENCE_HEADER = "Holdfast-Patience"
"""Seconds that a server waits on behalf of a request; `serve.callers` reads them."""
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
        """Process more of the answer.

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
