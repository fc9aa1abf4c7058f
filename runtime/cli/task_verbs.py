"""Verbs: tasks, task, output, kill."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, Raw, SessionRef
from holdfast.runtime.cli.caller import controller, wants_json

if TYPE_CHECKING:
    from holdfast.runtime.api.task_info import TaskInfo

TaskRef = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of a task, a unique prefix of it, or its name.")
]


def tasks(session: SessionRef, json: Json = False) -> None:
    """List commands started by `exec --detach`: running ones and the last that ended."""
    found = controller().session(session).tasks()
    if wants_json(json):
        printing.emit([info.as_dict() for info in found])
        return
    now = datetime.now(UTC)
    printing.table(
        ("ID", "NAME", "STATE", "STARTED", "COMMAND"),
        ((i.id, i.name, _state(i), printing.ago(i.started_at, now), i.command) for i in found),
    )


def task(session: SessionRef, task: TaskRef, json: Json = False) -> None:
    """Show what a task is doing, or how it ended."""
    info = controller().session(session).task(task).info()
    if wants_json(json):
        printing.emit(info.as_dict())
        return
    printing.say(f"{info.id}  {_state(info)}  {info.duration:.1f} s")
    printing.say(f"command: {info.command}")
    printing.say(f"in {info.cwd}, pid {info.pid}, by {info.actor}, output to offset {info.end_offset}")


def output_(
    session: SessionRef,
    task: TaskRef,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until it ends.")] = False,
    begin: Annotated[
        int,
        typer.Option("--from", metavar="OFFSET", help="Offset to start at; negative: counted from the end."),
    ] = 0,
    raw: Raw = False,
) -> None:
    """Print what a task wrote to its terminal."""
    found = controller().session(session).task(task)
    with printing.guest_output(raw=raw) as show:
        found.follow(on_bytes=show, offset=begin, follow=follow)


def kill(
    session: SessionRef,
    task: TaskRef,
    signal: Annotated[
        str, typer.Option("--signal", "-s", metavar="NAME", help="Such as INT or KILL.")
    ] = "TERM",
    json: Json = False,
) -> None:
    """Send a signal to every process in a task's terminal."""
    found = controller().session(session)
    wanted = found.task(task)
    wanted.signal(signal)
    if wants_json(json):
        printing.emit({"id": wanted.id, "session": found.name, "signal": signal})


def _state(info: TaskInfo) -> str:
    if info.running:
        waits = info.observed is not None and info.observed.waits
        return (
            f"waits: {info.observed.prompt or info.observed.detail}" if waits and info.observed else "running"
        )
    if info.signal is None:
        return f"exit {info.exit_code}"
    return f"signal {info.signal}" + (f" by {info.killed_by}" if info.killed_by else "")
