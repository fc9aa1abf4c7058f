"""Verbs: task and what is below it, checkpoint, handoff, board."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import BusyWait, Json, SessionRef
from holdfast.runtime.cli.caller import controller, wants_json

if TYPE_CHECKING:
    from holdfast.runtime.api.session_task import SessionTask
    from holdfast.runtime.task.task_record import TaskRecord

app = typer.Typer(name="task", no_args_is_help=True, help="Record what is to be done in a session.")

Number = Annotated[str, typer.Argument(metavar="STEP", help="Number of a step, such as 2.1.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="One line.")]
Entry = Annotated[
    str | None, typer.Option("--entry", metavar="#N", help="The journal entry that shows it, such as #12.")
]
LONGEST_INPUT = 256 << 10
"""Bytes that are read of a file or of standard input."""


@app.command("set")
def set_(
    session: SessionRef,
    goal: Annotated[str | None, typer.Option("--goal", help="The goal; begins a task.")] = None,
    resume_at: Annotated[str | None, typer.Option("--resume-at", help="Where exactly to continue.")] = None,
    retry_limit: Annotated[
        int | None, typer.Option("--retry-limit", help="Retries of a step that has failed.", min=0)
    ] = None,
    verify: Annotated[
        str | None, typer.Option("--verify", metavar="CMD", help="Verifies steps without one of their own.")
    ] = None,
    back_end: Annotated[str | None, typer.Option("--back-end", help="The engine or service chosen.")] = None,
    artifacts: Annotated[
        str | None,
        typer.Option("--artifacts", metavar="GLOBS", help="Files that checkpoints register: 'dist/* *.csv'."),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile", metavar="NAME=CMD", help="A named verification; steps say `@NAME`. Repeatable."
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="WHEN", help="Take checkpoints: `step`, a time such as 30m, or both."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Begin a task, or set its resume point and policy. An empty text removes a value."""
    found = _task(session).set(
        goal=goal,
        resume_at=resume_at,
        retry_limit=retry_limit,
        verify=verify,
        back_end=back_end,
        artifacts=artifacts,
        profiles=None if profile is None else dict(map(_profile, profile)),
        checkpoint=checkpoint,
    )
    _report(found, as_json=json)


@app.command()
def plan(
    session: SessionRef,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT|-", help="Lines: a phase, then `- STEP` or `- STEP :: COMMAND`."),
    ],
    json: Json = False,
) -> None:
    """Replace the plan. Steps that keep phase and title keep their status."""
    _report(_task(session).plan(_standard_input() if text == "-" else text), as_json=json)


@app.command()
def step(
    session: SessionRef,
    number: Number,
    status: Annotated[
        Literal["open", "active", "blocked", "skipped"] | None, typer.Option("--status", help="Its status.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Its title.")] = None,
    verify: Annotated[
        str | None, typer.Option("--verify", metavar="CMD", help="The command that verifies it.")
    ] = None,
    back_end: Annotated[str | None, typer.Option("--back-end", help="Its own back end.")] = None,
    json: Json = False,
) -> None:
    """Change a step."""
    found = _task(session).step(number, status=status, title=title, verify=verify, back_end=back_end)
    _report(found, as_json=json)


@app.command()
def claim(
    session: SessionRef,
    number: Number,
    take: Annotated[bool, typer.Option("--take", help="Even if another has claimed it.")] = False,
    json: Json = False,
) -> None:
    """Claim a step: others are refused to finish it until it is done or released."""
    _report(_task(session).claim(number, take=take), as_json=json)


@app.command()
def release(session: SessionRef, number: Number, json: Json = False) -> None:
    """Give up the claim of a step."""
    _report(_task(session).release(number), as_json=json)


@app.command()
def done(
    session: SessionRef,
    number: Number,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="The most seconds for its verification.")
    ] = 3600.0,
    junit: Annotated[
        str | None,
        typer.Option(
            "--junit",
            metavar="PATH",
            help="A test report that it must write in the session: with tests, and none failed.",
        ),
    ] = None,
    busy_wait: BusyWait = None,
    json: Json = False,
) -> None:
    """Mark a step as done, after its verification has passed in the session; exit code 1 if it fails."""
    found = _task(session).done(number, timeout=timeout, junit=junit, busy_wait=busy_wait)
    if wants_json(json):
        failure = found.failure.as_dict() if found.failure is not None else None
        answer = {"step": number, "done": found.done, "entry": found.entry, "failure": failure}
        printing.emit({**answer, "checkpoint": found.checkpoint})
    elif found.done:
        evidence = f", verified by {found.entry}" if found.entry else ""
        kept = f", checkpoint {found.checkpoint}" if found.checkpoint else ""
        printing.say(f"{number} done{evidence}{kept}")
    elif found.failure is not None:
        printing.note(f"step {number} is not done: {found.failure.failure_type} ({found.entry})")
        printing.note(f"saw: {found.failure.failure_detail} [{found.failure.seen}]")
        printing.note(f"next: {found.failure.suggested_focus}")
    if not found.done:
        raise typer.Exit(1)


@app.command()
def attempt(
    session: SessionRef,
    number: Number,
    entry: Annotated[str, typer.Argument(metavar="#N", help="The journal entry at which it started.")],
    json: Json = False,
) -> None:
    """Record a command of the session as an attempt at a step, with the kind of its failure."""
    found = _task(session).attempt(number, entry)
    failure = found.failure
    if wants_json(json):
        kind = failure.as_dict() if failure is not None else None
        printing.emit({"step": number, "entry": entry, "failure": kind})
    elif failure is None:
        printing.say(f"{entry} passed")
    else:
        printing.say(plain(f"{entry} failed: {failure.failure_type}: {failure.failure_detail}"))


@app.command()
def decide(
    session: SessionRef,
    text: Text,
    why: Annotated[str, typer.Option("--why", help="The reason.")],
    json: Json = False,
) -> None:
    """Lock a decision."""
    _report(_task(session).decide(text, why), as_json=json)


@app.command()
def alternative(
    session: SessionRef,
    text: Text,
    why: Annotated[str, typer.Option("--why", help="Why it was not taken.")],
    json: Json = False,
) -> None:
    """Record a path that was not taken."""
    _report(_task(session).alternative(text, why), as_json=json)


@app.command()
def answer(
    session: SessionRef,
    number: Annotated[int, typer.Argument(metavar="N", help="Number of the question, from 1.")],
    text: Text,
    json: Json = False,
) -> None:
    """Answer an open question; the answer is a locked decision from then on."""
    _report(_task(session).answer(number, text), as_json=json)


@app.command()
def note(
    session: SessionRef,
    text: Text,
    question: Annotated[bool, typer.Option("--question", help="It is an open question.")] = False,
    risk: Annotated[bool, typer.Option("--risk", help="It is a risk.")] = False,
    about: Annotated[
        str | None, typer.Option("--step", metavar="STEP", help="The step that it is about.")
    ] = None,
    json: Json = False,
) -> None:
    """Add a remark, an open question, or a risk. A question about a step blocks it."""
    if question and risk:
        raise InvalidArgument("cannot add a note: it is either a question or a risk")
    kind: Literal["note", "question", "risk"] = "question" if question else "risk" if risk else "note"
    _report(_task(session).note(text, kind, step=about), as_json=json)


@app.command()
def reread(
    session: SessionRef,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or module.")],
    why: Annotated[str | None, typer.Option("--why", help="The reason.")] = None,
    json: Json = False,
) -> None:
    """Add a file that a successor should read before continuing."""
    _report(_task(session).read_again(path, why), as_json=json)


@app.command()
def artifact(
    session: SessionRef,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of the same name is replaced.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The file in the session.")],
    entry: Entry = None,
    json: Json = False,
) -> None:
    """Register a file that the work has produced, and keep it: `holdfast artifact get NAME`."""
    _report(_task(session).artifact(name, path, entry=entry), as_json=json)


@app.command()
def artifacts(
    session: SessionRef,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Instead list generated files that nothing accounts for."),
    ] = False,
    json: Json = False,
) -> None:
    """Register the files that the patterns of `set --artifacts` match, and print their names."""
    task = _task(session)
    if not orphans:
        names = task.collect_artifacts()
        if wants_json(json):
            printing.emit({"registered": names})
        else:
            for name in names:
                printing.say(plain(name))
        return
    found = task.orphans()
    if wants_json(json):
        printing.emit([each.as_dict() for each in found])
    else:
        printing.table(
            ("PATH", "SIZE", "MADE BY"),
            ((each.path, printing.size(each.bytes), each.entry or "") for each in found),
        )


@app.command()
def drop(
    session: SessionRef,
    kind: Annotated[
        Literal["decision", "alternative", "question", "risk", "file", "artifact", "note"],
        typer.Argument(metavar="KIND", help="decision, alternative, question, risk, file, artifact or note."),
    ],
    number: Annotated[int, typer.Argument(metavar="N", help="Its number in the list, from 1.")],
    json: Json = False,
) -> None:
    """Remove what is settled."""
    _report(_task(session).drop(kind, number), as_json=json)


@app.command()
def block(
    session: SessionRef,
    why: Annotated[str, typer.Argument(metavar="WHY", help="The reason why the work cannot continue.")],
    needs: Annotated[str, typer.Option("--needs", help="What is needed to continue.")],
    at: Annotated[
        str | None, typer.Option("--step", metavar="STEP", help="The step that is blocked.")
    ] = None,
    entry: Entry = None,
    tried: Annotated[str | None, typer.Option("--tried", help="What was tried.")] = None,
    suspend: Annotated[bool, typer.Option("--suspend", help="Suspend the session until `unblock`.")] = False,
    json: Json = False,
) -> None:
    """Record what blocks the work, and show the report for the one who can unblock it."""
    from holdfast.runtime.task import block_report

    opened = controller().session(session)
    found = opened.task.block(why, needs, step=at, entry=entry, tried=tried, suspend=suspend)
    if wants_json(json):
        printing.emit({**_summary(found), "resume": block_report.resume_command(opened.name)})
        return
    printing.say(_line(found))
    for line in block_report.block_report(opened.name, found):
        printing.say(line)


@app.command()
def unblock(
    session: SessionRef,
    how: Annotated[str | None, typer.Option("--how", help="How that came.")] = None,
    json: Json = False,
) -> None:
    """Record that nothing blocks the work any more; resume the session if it is suspended."""
    _report(_task(session).unblock(how), as_json=json)


@app.command()
def show(session: SessionRef, json: Json = False) -> None:
    """Show the record: as Markdown, or as JSON."""
    found = _task(session)
    if wants_json(json):
        from holdfast.runtime.task import task_form

        record = found.record()
        printing.emit({} if record is None else task_form.dump(record))
    else:
        sys.stdout.write(found.export())


@app.command("import")
def import_(
    session: SessionRef,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Markdown or JSON, as `show` prints it.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Even if it lacks what was recorded since it was exported.")
    ] = False,
    json: Json = False,
) -> None:
    """Take over a record, in place of the present one."""
    text = _standard_input() if file == "-" else _read(file)
    _report(_task(session).import_(text, replace=replace), as_json=json)


@app.command()
def resume(session: SessionRef, json: Json = False) -> None:
    """Bring the session back if it is suspended or dead; show the record, and what has changed since."""
    from dataclasses import asdict

    from holdfast.runtime.task import task_form

    found = _task(session).resume()
    if wants_json(json):
        drift = found.drift.as_dict() if found.drift is not None else None
        git = [asdict(each) for each in found.repositories]
        told = {"session": found.how, "record": task_form.dump(found.record), "drift": drift, "git": git}
        printing.emit(told | {"running": found.running, "ran": found.ran, "undone": found.undone})
        return
    printing.note({"running": "it runs", "resumed": "it was resumed", "rewound": "it was rewound"}[found.how])
    printing.say(found.handoff(session, limit=12).rstrip())


def checkpoint(
    session: SessionRef,
    label: Annotated[str | None, typer.Option("--label", help="Label of the snapshot.")] = None,
    resume_at: Annotated[str | None, typer.Option("--resume-at", help="Where exactly to continue.")] = None,
    kind: Annotated[
        Literal["live", "filesystem"], typer.Option("--kind", help="live, or filesystem for files only.")
    ] = "live",
    json: Json = False,
) -> None:
    """Capture a session together with the record of its task."""
    found = _task(session).checkpoint(label, resume_at=resume_at, kind=kind)
    if wants_json(json):
        printing.emit(found.as_dict())
    else:
        printing.say(found.name)


def handoff(
    session: SessionRef,
    budget: Annotated[int, typer.Option("--budget", metavar="TOKENS", help="The most tokens.", min=1)] = 1500,
    json: Json = False,
) -> None:
    """Print what a successor needs to continue a session's task."""
    text = _task(session).handoff(budget)
    if wants_json(json):
        printing.emit({"session": session, "budget": budget, "text": text})
    else:
        printing.say(text.rstrip())


def board(json: Json = False) -> None:
    """Show where the tasks of all sessions stand."""
    found = controller().board()
    if wants_json(json):
        printing.emit([each.as_dict() for each in found])
        return
    printing.table(
        ("SESSION", "", "TASK", "PHASES", "STEPS", "AT", "ATTEMPTS", "CHECKPOINT", "BY", "GOAL"),
        (
            (
                each.session,
                each.session_state,
                f"{each.state}: {each.blocked}" if each.blocked else each.state,
                f"{sum(one.done == one.steps for one in each.phases)}/{len(each.phases)}",
                f"{each.done}/{each.steps}",
                each.step + (f" ({each.claimed_by})" if each.claimed_by else ""),
                str(each.attempts),
                each.checkpoint,
                each.by,
                each.goal,
            )
            for each in found
        ),
    )


def _profile(text: str) -> tuple[str, str]:
    name, sign, command = text.partition("=")
    if not sign:
        raise InvalidArgument(
            f"cannot use the profile '{plain(text, 60)}': it has no command",
            hint="such as `--profile quick='pytest -x -q'`; without a command after `=` it is removed",
        )
    return name, command


def _task(session: str) -> SessionTask:
    return controller().session(session).task


def _report(record: TaskRecord, *, as_json: bool) -> None:
    if wants_json(as_json):
        printing.emit(_summary(record))
    else:
        printing.say(_line(record))


def _summary(record: TaskRecord) -> dict[str, Any]:
    done, total = record.finished
    return {"revision": record.revision, "state": record.state, "done": done, "steps": total}


def _line(record: TaskRecord) -> str:
    done, total = record.finished
    return f"{record.state}, {done} of {total} steps, revision {record.revision}"


def _standard_input() -> str:
    return _text(sys.stdin.buffer.read(LONGEST_INPUT + 1), "standard input")


def _read(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            return _text(opened.read(LONGEST_INPUT + 1), file)
    except OSError as error:
        raise InvalidArgument(f"cannot read {file}: {error.strerror}") from error


def _text(data: bytes, name: str) -> str:
    if len(data) > LONGEST_INPUT:
        raise InvalidArgument(f"cannot use {name}: it is longer than {LONGEST_INPUT} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"cannot use {name}: it is not UTF-8 text") from error
