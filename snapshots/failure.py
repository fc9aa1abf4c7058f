"""The failure record: the failure for which a snapshot was taken, and where to continue the investigation.

It is kept in the manifest and in the details of the snapshot's row, and travels with both. Its content
comes from programs and guests: it is truncated and stripped of anything unsafe for a terminal, instead of
refused, so that a record never prevents a capture. It does not know sessions and takes no snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

Reason = Literal["failed", "timeout", "hang", "exception", "asked"]
"""It ended with an error; took too long; waited for input that never comes, or made no progress; raised an
exception and is stopped at its frame; or a program asked for the capture for a reason of its own."""

LINE = 500
TEXT = 4_000
TAIL = 16_000
"""Most characters of one line, of a text, and of the end of an output, of which the last are kept."""


def _printable(value: Any, limit: int, *, lines: bool = False, last: bool = False) -> str:
    text = str(value)[-4 * limit :] if last else str(value)[: 4 * limit]
    if not lines:
        text = " ".join(text.split())
    kept = "".join(c for c in text if c.isprintable() or c in "\n\t")
    return kept[-limit:] if last else kept[:limit]


def _line(value: Any) -> str:
    return _printable(value, LINE)


def _text(value: Any) -> str:
    return _printable(value, TEXT, lines=True)


def _tail(value: Any) -> str:
    return _printable(value, TAIL, lines=True, last=True)


def _optional_line(value: Any) -> str | None:
    return None if value is None else _line(value)


Line = Annotated[str, BeforeValidator(_line)]
OptionalLine = Annotated[str | None, BeforeValidator(_optional_line)]
Text = Annotated[str, BeforeValidator(_text)]
Tail = Annotated[str, BeforeValidator(_tail)]


class _FailurePart(BaseModel):
    # Fields that a newer version adds are not needed to show the rest.
    model_config = ConfigDict(extra="ignore", frozen=True)


class Debugger(_FailurePart):
    """The place where a user who thaws the snapshot finds a debugger, or the stopped program.

    `job` is the id of the job whose terminal it has; None means the terminal of the main shell. `command`,
    if given, is run in a shell of the session to reach it (`holdfast-debug 3`). `program` is its name.
    """

    program: Line = ""
    job: OptionalLine = Field(default=None, validation_alias=AliasChoices("job", "task"))
    """Earlier versions wrote it as `task`."""
    command: OptionalLine = None


class Failure(_FailurePart):
    """A failure.

    Attributes:
        reason: how it failed.
        command: the command that was run.
        exit_code: its exit code, 128+n after signal n; None if it had not ended.
        where: a test's id, or `file:line`.
        message: the exception, or what it waits for, in a line or a few.
        tail: the end of its output.
        pulse: the activity in the session, in a few lines.
        debugger: where to continue the investigation; None if there is no better place than a shell.
        job: the address or name of the job it happened in.
        revision: the revision checked out there.
    """

    reason: Reason
    command: Text = ""
    exit_code: int | None = None
    where: OptionalLine = None
    message: Text = ""
    tail: Tail = ""
    pulse: Text = ""
    debugger: Debugger | None = None
    job: OptionalLine = None
    revision: OptionalLine = None

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Failure | None:
        """Parse the record that a guest or another machine gives; return None if it is not valid."""
        try:
            return cls.model_validate(dict(value))
        except (ValidationError, TypeError, ValueError):
            return None

    def as_details(self) -> dict[str, Any]:
        """Return the record as plain values, for the details of a snapshot's row."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def title(self) -> str:
        """One line: the failed subject, and how it failed."""
        what = self.where or _line(self.command) or "the session"
        if self.reason == "failed":
            return f"{what} failed" + (f" with {self.exit_code}" if self.exit_code is not None else "")
        how = {"timeout": "took too long", "hang": "hangs", "exception": "raised an exception"}
        return f"{what} {how.get(self.reason, 'was captured')}"


def of_row(details: Mapping[str, Any]) -> Failure | None:
    """Return the record in the details of a snapshot's row."""
    found = details.get("failure")
    if isinstance(found, Failure):
        return found
    return Failure.parse(found) if isinstance(found, dict) else None
