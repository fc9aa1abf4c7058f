"""Commands, cells, programs and jobs: requests, and outcomes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holdfast.runtime.api.session import Session
from holdfast.runtime.guest import defaults
from holdfast.runtime.serve.models.base_models import (
    TEXT,
    Name,
    Part,
    Patient,
    RequestBody,
    Seconds,
    Side,
    taking,
)

Position = Annotated[int, Field(ge=0, lt=2**53)]
Word = Annotated[str, Field(max_length=128 << 10, pattern=TEXT)]
Variables = Annotated[
    dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Word],
    # The form of a dictionary allows other names than those that fit the pattern, unless it says so.
    Field(max_length=1000, json_schema_extra={"additionalProperties": False}),
]
Folder = Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)]
Account = Annotated[str, Field(pattern=r"^([a-z_][a-z0-9_-]{0,31}|\d{1,10})$")]
Signal = Literal["INT", "TERM", "KILL", "HUP", "QUIT", "STOP", "CONT", "USR1", "USR2", "TSTP", "WINCH"]
EventKind = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


@taking(Session.exec)
class ExecRequest(RequestBody):
    """A command for a shell, as `Session.exec` takes it."""

    command: Annotated[str, Field(min_length=1, max_length=8 << 20, pattern=TEXT)]
    patience: Patient | None = None
    wait: bool = False


class FollowQuery(RequestBody):
    """The offset of the output at which following begins, and whether it continues beyond a wait for
    input."""

    start: Position | None = None
    wait: bool = False


class JobQuery(FollowQuery):
    """How a job is followed; `raw` leaves the ends of lines as its terminal has them."""

    raw: bool = False


class JoinQuery(FollowQuery):
    """How a command in a shell is followed."""

    shell: Part = defaults.MAIN


class CellQuery(RequestBody):
    """The event after which a cell is followed."""

    after: Position = 0
    kernel: Part = defaults.MAIN


class ProgramQuery(RequestBody):
    """The offsets of its streams from which a program is followed; it is ended after `timeout` seconds."""

    stdout: Position = 0
    stderr: Position = 0
    timeout: Seconds | None = None


class AnswerRequest(RequestBody):
    """Text for the command that waits; most programs want a newline at its end."""

    text: Annotated[str, Field(min_length=1, max_length=1 << 20)]
    shell: Part = defaults.MAIN
    patience: Patient | None = None
    wait: bool = False


class InterruptRequest(RequestBody):
    """The target of an interrupt: the foreground of a shell, or one command only."""

    shell: Part = defaults.MAIN
    command_id: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    patience: Annotated[float, Field(ge=0, le=600)] = 10.0


class SyntaxRequest(RequestBody):
    """A text for bash to parse without running it."""

    text: Annotated[str, Field(max_length=8 << 20, pattern=TEXT)]
    shell: Part = defaults.MAIN


@taking(Session.cell)
class CellRequest(RequestBody):
    """Code for a kernel, as `Session.cell` takes it."""

    code: Annotated[str, Field(max_length=8 << 20)]
    before: Annotated[str, Field(max_length=256 << 10)] | None = None
    patience: Patient | None = None


class CellAnswerRequest(RequestBody):
    """A line for a cell that asks for one; `seq` is taken from the result with the question."""

    text: Annotated[str, Field(max_length=1 << 20)]
    seq: Annotated[int, Field(ge=0, lt=2**53)] = 0
    kernel: Part = defaults.MAIN
    patience: Patient | None = None


@taking(Session.detach)
class JobRequest(RequestBody):
    """A command that runs outside the shell, on a terminal of its own."""

    command: Annotated[str, Field(min_length=1, max_length=8 << 20, pattern=TEXT)]
    env: Variables = Field(default_factory=dict)
    cwd: Folder | None = None
    user: Account | None = None


class TypedRequest(RequestBody):
    """Text to be typed, or keys to be pressed, such as `C-c`, `Enter`, `Up`."""

    text: Annotated[str, Field(min_length=1, max_length=1 << 20)] | None = None
    keys: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=20)]], Field(max_length=1000, default_factory=list)
    ]


class SizeRequest(RequestBody):
    """The size of a terminal, in characters."""

    rows: Side
    cols: Side


class SignalRequest(RequestBody):
    """A signal."""

    signal: Signal = "TERM"


class ProgramFields(RequestBody):
    """A program with its arguments, variables, directory and user."""

    argv: Annotated[list[Word], Field(min_length=1, max_length=10_000)]
    env: Variables = Field(default_factory=dict)
    cwd: Folder | None = None
    user: Account | None = None


class ProgramRequest(ProgramFields):
    """A program and its arguments, without a shell or terminal; with `input`, other requests send it
    input."""

    name: Name | None = None
    input: bool = False


class RunRequest(ProgramFields):
    """A program that is started and waited for. `input` is its standard input, or `input_base64`."""

    input: Annotated[str, Field(max_length=8 << 20)] | None = None
    input_base64: (
        Annotated[str, Field(max_length=11 << 20, pattern=r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2,3}=?=?)?$")]
        | None
    ) = None
    timeout: Seconds | None = None


class EventsQuery(RequestBody):
    """The start, the kinds (notable ones by default), and whether to include future events."""

    after: Annotated[int, Field(ge=0, lt=2**53)] = 0
    kind: Annotated[list[EventKind], Field(max_length=50)] | None = None
    follow: bool = True


class WatchQuery(RequestBody):
    """A folder or file to be watched."""

    path: Folder = "."
    recursive: bool = False
    user: Account | None = None
