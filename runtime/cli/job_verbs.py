"""Verbs: jobs, job, output, kill."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.errors import CommandNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, RAW, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

if TYPE_CHECKING:
    from holdfast.runtime.api.job_info import JobInfo

_CELL = re.compile("cell-([0-9]{1,9})")
"""A cell by its number in the kernel, in the place of a job."""
JOB_REF = argument("JOB", help="Id of a job, a unique prefix of it, or its name.")


@examples("jobs work")
def jobs(session: str = SESSION_REF, json: bool = JSON) -> None:
    """List commands started by `exec --detach`: running ones and the last that ended."""
    found = controller().session(session).jobs()
    if wants_json(json):
        printing.emit([info.as_dict() for info in found])
        return
    now = datetime.now(UTC)
    printing.table(
        ("ID", "NAME", "STATE", "STARTED", "COMMAND"),
        ((i.id, i.name, _state(i), printing.ago(i.started_at, now), i.command) for i in found),
    )


@examples("job work train")
def job(session: str = SESSION_REF, job: str = JOB_REF, json: bool = JSON) -> None:
    """Show what a job is doing, or how it ended."""
    info = controller().session(session).job(job).info()
    if wants_json(json):
        printing.emit(info.as_dict())
        return
    printing.say(f"{info.id}  {_state(info)}  {info.duration:.1f} s")
    printing.say(f"command: {info.command}")
    printing.say(f"in {info.cwd}, pid {info.pid}, by {info.actor}, output to offset {info.end_offset}")


@examples("output work train", "output work train -f", "output work cell-4    # with its pictures")
def output_(
    session: str = SESSION_REF,
    job: str = JOB_REF,
    follow: bool = option("--follow", "-f", help="Keep printing until it ends."),
    begin: int = option(
        "--from", default=0, metavar="OFFSET", help="Offset to start at; negative: counted from the end."
    ),
    save: str | None = option("--save", metavar="DIR", help="Of a cell: keep its pictures in this folder."),
    raw: bool = RAW,
) -> None:
    """Print what a job wrote to its terminal; or, as `cell-N`, what the cell In[N] showed."""
    if cell := _CELL.fullmatch(job):
        _show_cell(session, int(cell[1]), save)
        return
    found = controller().session(session).job(job)
    with printing.guest_output(raw=raw) as show:
        found.follow(on_bytes=show, offset=begin, follow=follow)


def _show_cell(session: str, number: int, save: str | None) -> None:
    from holdfast.runtime.cli.cell_view import CellView

    found = controller().session(session)
    entries = found.journal(kinds=["cell_ended"])
    of = next(
        (each.details for each in reversed(entries) if each.details.get("execution_count") == number), None
    )
    if of is None:
        raise CommandNotFound(
            f"cannot show cell {number} of session {found.name}: its journal has no cell of that number",
            hint=f"`holdfast journal {found.name} --kind cell_ended` lists them",
        )
    outputs = of.get("outputs")
    CellView(found.name, save).kept(outputs if isinstance(outputs, list) else [])


@examples("kill work train", "kill work train -s KILL")
def kill(
    session: str = SESSION_REF,
    job: str = JOB_REF,
    signal: str = option("--signal", "-s", default="TERM", metavar="NAME", help="Such as INT or KILL."),
    json: bool = JSON,
) -> None:
    """Send a signal to every process in a job's terminal."""
    found = controller().session(session)
    wanted = found.job(job)
    wanted.signal(signal)
    if wants_json(json):
        printing.emit({"id": wanted.id, "session": found.name, "signal": signal})


def _state(info: JobInfo) -> str:
    if info.running:
        waits = info.observed is not None and info.observed.waits
        return (
            f"waits: {info.observed.prompt or info.observed.detail}" if waits and info.observed else "running"
        )
    if info.signal is None:
        return f"exit {info.exit_code}"
    return f"signal {info.signal}" + (f" by {info.killed_by}" if info.killed_by else "")
