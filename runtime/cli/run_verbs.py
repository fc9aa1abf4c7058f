"""Verbs that run outside the shell: run, jobs, job, output, kill."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

from holdfast.base import ids
from holdfast.errors import CommandNotFound, InvalidArgument, SessionNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, RAW, SESSION_REF, session_names
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.reporting import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.job_info import JobInfo
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.program_result import ProgramResult

PIECE = 256 << 10
DATA = "data"
"""The image with this name is built here, and does not have a tag."""
TIMED_OUT = 124
SIGNALLED = 128
_CELL = re.compile("cell-([0-9]{1,9})")
"""A cell by its number in the kernel, in the place of a job."""
JOB_REF = argument("JOB", help="Id of a job, a unique prefix of it, or its name.")


@examples(
    "run work -- python3 -c 'print(1)'",
    "run work -i -- wc -l < names.txt",
    "run debian:12 -- cat /etc/os-release   # a session of its own, removed at the end",
)
def run(
    session: str = argument(
        "SESSION|IMAGE",
        help="Name of a session or prefix of its id; or an image as NAME:TAG, or `data`.",
        names=session_names,
    ),
    argv: list[str] = argument("-- PROGRAM [ARG...]", help="The program to run, with its arguments."),
    stdin: bool = option("--input", "-i", help="Pass standard input on to the program."),
    env: list[str] | None = option("--env", "-e", metavar="KEY=VALUE", help="Set a variable. Repeatable."),
    cwd: str | None = option("--cwd", "-w", metavar="DIR", help="Directory; by default the shell's."),
    user: str | None = option(metavar="NAME", help="User of the session to run it as."),
    timeout: float | None = option(metavar="S", help="End the program and its children after S seconds."),
    raw: bool = RAW,
    json: bool = JSON,
) -> None:
    """Run a program without a shell or terminal. Exits with its code, or 124 after a timeout.

    Its output and its errors are passed on separately, byte for byte. The shell stays free for others.
    An image gets a session of its own, which is removed at the end.
    """
    variables = dict(_variable(each) for each in env or ())
    given = _input() if stdin else None
    with _session(session) as found:
        programs = found.programs
        start = partial(programs.run, argv, input=given, env=variables, cwd=cwd, user=user, timeout=timeout)
        code = _ran(start, timeout, raw=raw, as_json=wants_json(json))
    raise Exit(code)


@contextmanager
def _session(ref: str) -> Iterator[Session]:
    """Yield the session of this name, or one of this image, which is removed at the end.

    A name that no session has is not taken for an image: a slip would fetch one that was not meant.
    """
    holdfast = controller()
    if (found := _existing(holdfast, ref)) is not None:
        yield found
        return
    from holdfast.runtime.cli import machine_verbs  # most runs are in a session

    nothing: Any = dict.fromkeys(("folder", "file", "target", "policy", "devcontainer"))
    image = machine_verbs.choose(holdfast, image=ref, arguments=(), entrypoint=False, **nothing)
    with holdfast.new(image=image, remove=True) as made:
        yield made


def _existing(holdfast: Holdfast, ref: str) -> Session | None:
    """Return the session of this name; None if it names an image."""
    if is_image(ref):
        return None
    try:
        return holdfast.session(ref)
    except SessionNotFound as error:
        if ref == DATA:
            return None
        hint = f"`holdfast ls` lists sessions; an image is named with its tag: {ref}:latest"
        raise SessionNotFound(str(error), hint=hint) from None


def is_image(ref: str) -> bool:
    """Return whether a name can only mean an image: it has a tag, a digest or a registry."""
    return re.fullmatch(ids.NAME, ref) is None and (":" in ref or "/" in ref)


def _ran(start: Callable[..., ProgramResult], timeout: float | None, *, raw: bool, as_json: bool) -> int:
    if as_json:
        result = start()
        printing.emit(result.as_dict())
        return _code(result)
    with printing.guest_output(raw=raw) as out, printing.guest_output(raw=raw, file=sys.stderr) as err:
        result = start(on_stdout=out, on_stderr=err)
    if result.timed_out:
        printing.note(f"the program was ended after {timeout:g} s")
    return _code(result)


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise InvalidArgument(f"cannot set {text!r}: it must be KEY=VALUE")
    return name, value


def _input() -> Iterator[bytes]:
    while data := os.read(sys.stdin.fileno(), PIECE):
        yield data


def _code(result: ProgramResult) -> int:
    if result.timed_out:
        return TIMED_OUT
    return SIGNALLED + result.signal if result.signal is not None else result.exit_code or 0


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
    """Show a job's activity, or its end."""
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
    save: str | None = option("--save", metavar="DIR", help="Keep the pictures of a cell in this folder."),
    raw: bool = RAW,
) -> None:
    """Print the terminal output of a job; or, as `cell-N`, the output of the cell In[N]."""
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
            f"cannot show cell {number} of session {found.name}: its journal does not have a cell "
            "with that number",
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
