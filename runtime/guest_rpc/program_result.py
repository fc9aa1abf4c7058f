"""A session's description of a program that was started directly, and the program's result. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.guest_rpc import wire_fields

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.wire_fields import FrameLike

LONGEST = 4096
_WORDS = (("id",), ("name", ""), ("cwd",), ("user",), ("actor",))
"""Texts in an answer, with the default of one that can be left out."""


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    """A program, running or ended.

    `exit_code` is the program's, `signal` the one that ended it; both are None while it runs. `accepted`
    counts the bytes of input it took, `stdout` and `stderr` its output. `duration` is in seconds. `name` is
    its starter's name for it.
    """

    id: str
    name: str
    argv: tuple[str, ...]
    cwd: str
    user: str
    actor: str
    pid: int
    state: Literal["running", "exited"]
    exit_code: int | None
    signal: int | None
    killed_by: str | None
    accepted: int
    stdout: int
    stderr: int
    duration: float

    @classmethod
    def of(cls, raw: FrameLike) -> ProgramInfo:
        """Read the value from an answer.

        Raises:
            ProtocolError: it is not valid.
        """
        killed_by, words = wire_fields.optional_text(raw, "killed_by"), wire_fields.head(raw).get("argv")
        argv = words if isinstance(words, list) and all(isinstance(word, str) for word in words) else []
        texts = {name: plain(wire_fields.text(raw, name, *default), LONGEST) for name, *default in _WORDS}
        return wire_fields.value(
            cls,
            raw,
            argv=tuple(word[:LONGEST] for word in argv[:100]),
            pid=wire_fields.integer(raw, "pid", 1),
            state=wire_fields.choice(raw, "state", ("running", "exited")),
            exit_code=wire_fields.optional_integer(raw, "exit_code"),
            signal=wire_fields.optional_integer(raw, "signal"),
            killed_by=None if killed_by is None else plain(killed_by, LONGEST),
            duration=wire_fields.number(raw, "duration"),
            **texts,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return as_table(self)


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended, and its output: the last 16 MiB of each stream, 1 MiB if it was passed on.

    `dropped` counts the bytes before that, `lost` the bytes that the session itself had already dropped.
    `exit_code` is None if a signal ended it, if it was stopped after its timeout, or if it still runs.
    """

    info: ProgramInfo
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    dropped: int = 0
    lost: int = 0

    @property
    def id(self) -> str:
        """The id of the program."""
        return self.info.id

    @property
    def exit_code(self) -> int | None:
        """Its exit code."""
        return self.info.exit_code

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended it."""
        return self.info.signal

    @property
    def ok(self) -> bool:
        """True if it ended with exit code 0."""
        return self.info.exit_code == 0 and not self.timed_out

    @property
    def text(self) -> str:
        """Its standard output as text; invalid UTF-8 shows as �."""
        return self.stdout.decode("utf-8", "replace")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        streams = {"stdout": self.text, "stderr": self.stderr.decode("utf-8", "replace")}
        return {**self.info.as_dict(), **as_table(self, "info", *streams), **streams}
