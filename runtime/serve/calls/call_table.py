"""The calls that a channel can make, by name, with the form of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from holdfast.runtime.guest import defaults
from holdfast.runtime.serve.calls.followed_calls import (
    ServedCall,
    answer_call,
    answer_cell_call,
    cell_call,
    events_call,
    exec_call,
    job_call,
    join_call,
    join_cell_call,
    program_call,
    run_call,
    watch_call,
)
from holdfast.runtime.serve.calls.served_terminals import AttachmentCall, TerminalCall
from holdfast.runtime.serve.models.base_models import TEXT, Part, RequestBody, Side
from holdfast.runtime.serve.models.command_models import (
    AnswerRequest,
    CellAnswerRequest,
    CellQuery,
    CellRequest,
    EventsQuery,
    ExecRequest,
    JobQuery,
    JoinQuery,
    Position,
    ProgramQuery,
    RunRequest,
    WatchQuery,
)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,80}$")]
Sought = Annotated[str, Field(min_length=1, max_length=200, pattern=TEXT)]
"""The id of a wanted object: a text that is not an id is not found, as in process."""


class JoinArgs(JoinQuery):
    """A command, and how it is followed."""

    command_id: Sought


class JoinCellArgs(CellQuery):
    """A cell, and how it is followed."""

    cell_id: Sought


class AnswerCellArgs(CellAnswerRequest):
    """A cell, and its answer."""

    cell_id: Name


class ProgramArgs(ProgramQuery):
    """A program, and how it is followed."""

    program: Name


class JobArgs(JobQuery):
    """A job, and how it is followed."""

    job: Name


class TerminalArgs(RequestBody):
    """A shell whose terminal is shown, from an offset or from `tail` bytes before the end of its output."""

    shell: Part = defaults.MAIN
    rows: Side = defaults.DEFAULT_ROWS
    cols: Side = defaults.DEFAULT_COLUMNS
    start: Position | None = None
    tail: Annotated[int, Field(ge=0, le=16 << 20)] = 0
    view: bool = False
    take: bool = False


class AttachArgs(RequestBody):
    """A shell to whose terminal a person's is joined, of these rows and columns, and how."""

    shell: Part = defaults.MAIN
    rows: Side = defaults.DEFAULT_ROWS
    cols: Side = defaults.DEFAULT_COLUMNS
    detach_key: Annotated[str, Field(min_length=1, max_length=20)] = "C-]"
    read_only: bool = False
    take: bool = False
    unfiltered: bool = False
    status: bool = False


Typed = TerminalCall | AttachmentCall
"""Calls into which can be typed."""
Made = ServedCall | Typed
Make = Callable[[Any, str | None], Made]
CALLS: Mapping[str, tuple[type[RequestBody], Make]] = {
    "exec": (ExecRequest, exec_call),
    "join": (JoinArgs, lambda args, _: join_call(args.command_id, args)),
    "answer": (AnswerRequest, lambda args, _: answer_call(args)),
    "cell": (CellRequest, cell_call),
    "join_cell": (JoinCellArgs, lambda args, _: join_cell_call(args.cell_id, args)),
    "answer_cell": (AnswerCellArgs, lambda args, _: answer_cell_call(args.cell_id, args)),
    "run": (RunRequest, lambda args, _: run_call(args)),
    "program": (ProgramArgs, lambda args, _: program_call(args.program, args)),
    "job": (JobArgs, lambda args, _: job_call(args.job, args)),
    "events": (EventsQuery, lambda args, _: events_call(args)),
    "watch": (WatchQuery, lambda args, _: watch_call(args)),
    "terminal": (TerminalArgs, lambda args, _: TerminalCall(args.model_dump())),
    "attach": (AttachArgs, lambda args, _: AttachmentCall(args.model_dump())),
}
KEYED = ("exec", "cell")
"""Calls that take an idempotency key."""
