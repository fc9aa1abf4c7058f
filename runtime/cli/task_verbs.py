"""Verbs: task and its subverbs, checkpoint, handoff, board."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import BUSY_WAIT, JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import REQUIRED, argument, examples, option
from holdfast.runtime.cli.reporting import Exit

if TYPE_CHECKING:
    from holdfast.runtime.api.session_task import SessionTask
    from holdfast.runtime.task.task_record import TaskRecord


NUMBER = argument("STEP", help="Number of a step, such as 2.1.")
TEXT = argument("TEXT", help="One line.")
ENTRY = option("--entry", metavar="#N", help="The journal entry that proves it, such as #12.")
LONGEST_INPUT = 256 << 10
"""Bytes that are read of a file or of standard input."""


@examples("task set work --goal 'Port the store to SQLite'")
def set_(
    session: str = SESSION_REF,
    goal: str | None = option("--goal", help="The goal. Begins a task."),
    resume_at: str | None = option("--resume-at", help="The exact point at which to continue."),
    retry_limit: int | None = option("--retry-limit", help="Number of retries for a failed step.", least=0),
    verify: str | None = option(
        "--verify", metavar="CMD", help=("Command that verifies steps without their own.")
    ),
    back_end: str | None = option("--back-end", help="The chosen engine or service."),
    artifacts: str | None = option(
        "--artifacts", metavar="GLOBS", help="Files for checkpoints to register: 'dist/* *.csv'."
    ),
    profile: list[str] | None = option(
        "--profile", metavar="NAME=CMD", help="A named verification; steps say `@NAME`. Repeatable."
    ),
    checkpoint: str | None = option(
        "--checkpoint", metavar="WHEN", help="Take checkpoints: `step`, a time such as 30m, or both."
    ),
    json: bool = JSON,
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


@examples("task plan work - < plan.md")
def plan(
    session: str = SESSION_REF,
    text: str = argument("TEXT|-", help="Lines: a phase, then `- STEP` or `- STEP :: COMMAND`."),
    json: bool = JSON,
) -> None:
    """Replace the plan. Steps that keep phase and title keep their status."""
    _report(_task(session).plan(_standard_input() if text == "-" else text), as_json=json)


@examples("task step work 1.2 --status skipped")
def step(
    session: str = SESSION_REF,
    number: str = NUMBER,
    status: Literal["open", "active", "blocked", "skipped"] | None = option("--status", help="Its status."),
    title: str | None = option("--title", help="Its title."),
    verify: str | None = option("--verify", metavar="CMD", help="The command that verifies it."),
    back_end: str | None = option("--back-end", help="Its own back end."),
    json: bool = JSON,
) -> None:
    """Change a step."""
    found = _task(session).step(number, status=status, title=title, verify=verify, back_end=back_end)
    _report(found, as_json=json)


@examples("task claim work 1.2")
def claim(
    session: str = SESSION_REF,
    number: str = NUMBER,
    take: bool = option("--take", help="Even if someone else has claimed it."),
    json: bool = JSON,
) -> None:
    """Claim a step: others are refused to finish it until it is done or released."""
    _report(_task(session).claim(number, take=take), as_json=json)


@examples("task release work 1.2")
def release(session: str = SESSION_REF, number: str = NUMBER, json: bool = JSON) -> None:
    """Give up the claim of a step."""
    _report(_task(session).release(number), as_json=json)


@examples("task done work 1.2")
def done(
    session: str = SESSION_REF,
    number: str = NUMBER,
    timeout: float = option(
        "--timeout", default=3600.0, metavar="S", help="The most seconds for its verification."
    ),
    junit: str | None = option(
        "--junit",
        metavar="PATH",
        help="A test report that it must write in the session, with tests and without failures.",
    ),
    busy_wait: float | None = BUSY_WAIT,
    json: bool = JSON,
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
        raise Exit(1)


@examples("task attempt work 1.2 '#14'    # entry 14 of the journal")
def attempt(
    session: str = SESSION_REF,
    number: str = NUMBER,
    entry: str = argument("#N", help="The journal entry at which it started."),
    json: bool = JSON,
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


@examples("task decide work 'Use SQLite' --why 'one file'")
def decide(
    session: str = SESSION_REF,
    text: str = TEXT,
    why: str = option("--why", default=REQUIRED, help="The reason."),
    json: bool = JSON,
) -> None:
    """Lock a decision."""
    _report(_task(session).decide(text, why), as_json=json)


@examples("task alternative work 'Postgres' --why 'needs a server'")
def alternative(
    session: str = SESSION_REF,
    text: str = TEXT,
    why: str = option("--why", default=REQUIRED, help="Reason against it."),
    json: bool = JSON,
) -> None:
    """Record a path that was not taken."""
    _report(_task(session).alternative(text, why), as_json=json)


@examples("task answer work 1 'Keep the old format'")
def answer(
    session: str = SESSION_REF,
    number: int = argument("N", help="Number of the question, from 1."),
    text: str = TEXT,
    json: bool = JSON,
) -> None:
    """Answer an open question; the answer is a locked decision from then on."""
    _report(_task(session).answer(number, text), as_json=json)


@examples("task note work 'The schema is in db/'", "task note work --risk 'No backup yet'")
def note(
    session: str = SESSION_REF,
    text: str = TEXT,
    question: bool = option("--question", help="Record an open question."),
    risk: bool = option("--risk", help="It is a risk."),
    about: str | None = option("--step", metavar="STEP", help="The step it concerns."),
    json: bool = JSON,
) -> None:
    """Add a remark, an open question, or a risk. A question about a step blocks it."""
    if question and risk:
        raise InvalidArgument("cannot add a note: it is either a question or a risk")
    kind: Literal["note", "question", "risk"] = "question" if question else "risk" if risk else "note"
    _report(_task(session).note(text, kind, step=about), as_json=json)


@examples("task reread work /workspace/schema.sql")
def reread(
    session: str = SESSION_REF,
    path: str = argument("PATH", help="A file or module."),
    why: str | None = option("--why", help="The reason."),
    json: bool = JSON,
) -> None:
    """Add a file that a successor should read before continuing."""
    _report(_task(session).read_again(path, why), as_json=json)


@examples("task artifact work report /workspace/report.html")
def artifact(
    session: str = SESSION_REF,
    name: str = argument("NAME", help="Its name; an artifact with that name is replaced."),
    path: str = argument("PATH", help="The file in the session."),
    entry: str | None = ENTRY,
    json: bool = JSON,
) -> None:
    """Register a file that the work has produced, and keep it: `holdfast artifact get NAME`."""
    _report(_task(session).artifact(name, path, entry=entry), as_json=json)


@examples("task artifacts work")
def artifacts(
    session: str = SESSION_REF,
    orphans: bool = option("--orphans", help="Instead list generated files that are not accounted for."),
    json: bool = JSON,
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


@examples("task drop work note 2")
def drop(
    session: str = SESSION_REF,
    kind: Literal["decision", "alternative", "question", "risk", "file", "artifact", "note"] = argument(
        "KIND", help="decision, alternative, question, risk, file, artifact or note."
    ),
    number: int = argument("N", help="Its number in the list, from 1."),
    json: bool = JSON,
) -> None:
    """Remove a settled item."""
    _report(_task(session).drop(kind, number), as_json=json)


@examples("task block work 'No access to the store' --needs 'a token'")
def block(
    session: str = SESSION_REF,
    why: str = argument("WHY", help="The reason the work cannot continue."),
    needs: str = option("--needs", default=REQUIRED, help="The thing needed to continue."),
    at: str | None = option("--step", metavar="STEP", help="The step that is blocked."),
    entry: str | None = ENTRY,
    tried: str | None = option("--tried", help="The attempts so far."),
    suspend: bool = option("--suspend", help="Suspend the session until `unblock`."),
    json: bool = JSON,
) -> None:
    """Record the obstacle that blocks the work, and show the report for the person who can remove it."""
    from holdfast.runtime.task import handoff

    opened = controller().session(session)
    found = opened.task.block(why, needs, step=at, entry=entry, tried=tried, suspend=suspend)
    if wants_json(json):
        printing.emit({**_summary(found), "resume": handoff.resume_command(opened.name)})
        return
    printing.say(_line(found))
    for line in handoff.block_report(opened.name, found):
        printing.say(line)


@examples("task unblock work --how 'The token came'")
def unblock(
    session: str = SESSION_REF,
    how: str | None = option("--how", help="How that came."),
    json: bool = JSON,
) -> None:
    """Record that the work is no longer blocked; resume the session if it is suspended."""
    _report(_task(session).unblock(how), as_json=json)


@examples("task show work", "task show work --json > record.json")
def show(session: str = SESSION_REF, json: bool = JSON) -> None:
    """Show the record: as Markdown, or as JSON."""
    found = _task(session)
    if wants_json(json):
        from holdfast.runtime.task import task_form

        record = found.record()
        printing.emit({} if record is None else task_form.dump(record))
    else:
        sys.stdout.write(found.export())


@examples("task import work record.json")
def import_(
    session: str = SESSION_REF,
    file: str = argument("FILE|-", help="Markdown or JSON, as `show` prints it."),
    replace: bool = option("--replace", help="Even if it lacks entries recorded since it was exported."),
    json: bool = JSON,
) -> None:
    """Replace the present record by an exported one."""
    text = _standard_input() if file == "-" else _read(file)
    _report(_task(session).import_(text, replace=replace), as_json=json)


@examples("task resume work")
def resume(session: str = SESSION_REF, json: bool = JSON) -> None:
    """Bring the session back if it is suspended or dead; show the record, and the changes since then."""
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


@examples("checkpoint work --label tested")
def checkpoint(
    session: str = SESSION_REF,
    label: str | None = option("--label", help="Label of the snapshot."),
    resume_at: str | None = option("--resume-at", help="The exact point at which to continue."),
    kind: Literal["live", "filesystem"] = option(
        "--kind", default="live", help="live, or filesystem for files only."
    ),
    json: bool = JSON,
) -> None:
    """Capture a session together with the record of its task."""
    found = _task(session).checkpoint(label, resume_at=resume_at, kind=kind)
    if wants_json(json):
        printing.emit(found.as_dict())
    else:
        printing.say(found.name)


@examples("handoff work", "handoff work --budget 2000")
def handoff(
    session: str = SESSION_REF,
    budget: int = option("--budget", default=1500, metavar="TOKENS", help="The most tokens.", least=1),
    json: bool = JSON,
) -> None:
    """Print the handoff that a successor needs to continue a session's task."""
    text = _task(session).handoff(budget)
    if wants_json(json):
        printing.emit({"session": session, "budget": budget, "text": text})
    else:
        printing.say(text.rstrip())


@examples("board")
def board(json: bool = JSON) -> None:
    """Show the progress of all sessions' tasks."""
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
            f"cannot use the profile '{plain(text, 60)}': its command is missing",
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
