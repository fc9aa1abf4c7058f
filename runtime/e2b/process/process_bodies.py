"""What clients ask about processes, as it arrives.  Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.wire_bodies import WireBody

SIGNALS = {"SIGNAL_SIGTERM": "TERM", "SIGNAL_SIGKILL": "KILL", 15: "TERM", 9: "KILL"}
"""The signals of this wire, by name and number; it has no others."""


def _bytes(given: Any) -> Any:
    """Decode base64 as Proto3 JSON allows it: either alphabet, with or without padding."""
    if not isinstance(given, str):
        raise ValueError("it must be base64")
    plain = given.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it must be base64") from None


WireBytes = Annotated[bytes, BeforeValidator(_bytes)]
Side = Annotated[int, Field(ge=1, le=1000)]


class ProcessBody(WireBody):
    """A message in which a field that is null counts as left out."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class ProcessChoice(ProcessBody):
    """Which process: by its pid, or by the tag it was started with."""

    pid: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    tag: str | None = None

    @model_validator(mode="after")
    def _one(self) -> ProcessChoice:
        if (self.pid is None) == (self.tag is None):
            raise ValueError("it must name a process by its pid or its tag")
        return self

    def __str__(self) -> str:
        return str(self.pid) if self.tag is None else f"tagged {self.tag[:100]!r}"


class PtyArea(ProcessBody):
    """The size of a terminal, in characters."""

    cols: Side
    rows: Side


class PtyBody(ProcessBody):
    """A terminal."""

    size: PtyArea | None = None


class ProcessWords(ProcessBody):
    """A program, its arguments, variables and directory."""

    cmd: Annotated[str, Field(min_length=1)]
    args: list[str] = Field(default_factory=list)
    envs: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None


class StartBody(ProcessBody):
    """A process to be started: on a terminal if it has `pty`, else on pipes, with input unless it says so."""

    process: ProcessWords
    pty: PtyBody | None = None
    tag: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    stdin: bool = True


class ProcessRef(ProcessBody):
    """A process."""

    process: ProcessChoice


class UpdateBody(ProcessRef):
    """What is to change of a process: the size of its terminal."""

    pty: PtyBody | None = None


class InputBytes(ProcessBody):
    """Input: for a pipe, or for a terminal."""

    stdin: WireBytes | None = None
    pty: WireBytes | None = None

    @model_validator(mode="after")
    def _one(self) -> InputBytes:
        if (self.stdin is None) == (self.pty is None):
            raise ValueError("it must have either stdin or pty")
        return self

    @property
    def kind(self) -> str:
        """Whether it is for `stdin` or `pty`."""
        return "stdin" if self.pty is None else "pty"

    @property
    def data(self) -> bytes:
        """The bytes."""
        return (self.stdin if self.pty is None else self.pty) or b""


class SendInputBody(ProcessRef):
    """Input for a process."""

    input: InputBytes


class InputPart(ProcessBody):
    """One piece of a stream of input."""

    input: InputBytes


class StreamInputBody(ProcessBody):
    """A message of a stream of input: first the process, then its input; either may be a sign of life."""

    start: ProcessRef | None = None
    data: InputPart | None = None


class SendSignalBody(ProcessRef):
    """A signal for a process."""

    signal: str | int = 0

    def name(self) -> str:
        """Return the signal as the library names it.

        Raises:
            InvalidArgument: this wire has no such signal.
        """
        if self.signal not in SIGNALS:
            raise InvalidArgument(
                f"cannot send the signal {self.signal!r:.40}: this wire has no such signal",
                hint="use SIGNAL_SIGTERM or SIGNAL_SIGKILL",
            )
        return SIGNALS[self.signal]
