"""The failure record: what failed when a snapshot was taken, and where to go on looking.

It is kept in the manifest and in the details of the snapshot's row, and travels with both. What is in it
comes from programs and guests: it is cut to size and rid of what no terminal should be given, instead of
refused, so that a record never stands in the way of a capture. It knows no sessions and takes no snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

Reason = Literal["failed", "timeout", "hang", "exception", "asked"]
"""It ended with an error; took too long; waited for what nobody gives, or got no further; raised an exception
and stands at its frame; or a program asked for the capture for a reason of its own."""

LINE = 500
TEXT = 4_000
TAIL = 16_000
"""Characters of one line, of a text, and of the end of an output, of which the last are kept."""


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


class _Part(BaseModel):
    # What a newer version adds is not needed to show the rest.
    model_config = ConfigDict(extra="ignore", frozen=True)


class Debugger(_Part):
    """Where somebody who thaws the snapshot finds a debugger, or the program that stands still.

    `task` is the id of the task whose terminal it has; None is the terminal of the main shell. `command`, if
    given, is run in a shell of the session to get to it (`holdfast-debug 3`). `program` is its name.
    """

    program: Line = ""
    task: OptionalLine = None
    command: OptionalLine = None


class Failure(_Part):
    """What failed.

    Attributes:
        reason: how.
        command: what was run.
        exit_code: what it ended with, 128+n after signal n; None if it had not ended.
        where: a test's id, or `file:line`.
        message: the exception, or what is waited for, in a line or a few.
        tail: the end of its output.
        pulse: what went on in the session, in a few lines.
        debugger: where to go on looking; None if there is no better place than a shell.
        job: the address or name of the job it happened in.
        revision: what was checked out there.
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
    def told(cls, value: Mapping[str, Any]) -> Failure | None:
        """The record that a guest or another machine gives; None if it is none."""
        try:
            return cls.model_validate(dict(value))
        except (ValidationError, TypeError, ValueError):
            return None

    def as_details(self) -> dict[str, Any]:
        """For the details of a snapshot's row: plain values."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def title(self) -> str:
        """One line: what failed, and how."""
        what = self.where or _line(self.command) or "the session"
        if self.reason == "failed":
            return f"{what} failed" + (f" with {self.exit_code}" if self.exit_code is not None else "")
        how = {"timeout": "took too long", "hang": "hangs", "exception": "raised an exception"}
        return f"{what} {how.get(self.reason, 'was captured')}"


def of_row(details: Mapping[str, Any]) -> Failure | None:
    """The record in the details of a snapshot's row."""
    found = details.get("failure")
    if isinstance(found, Failure):
        return found
    return Failure.told(found) if isinstance(found, dict) else None
