"""Verbs: exec, wait, send, screen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing, shell_outcome, task_verbs
from holdfast.runtime.cli.arguments import (
    BusyWait,
    Json,
    Key,
    LeaseWait,
    Patience,
    Raw,
    Reason,
    SessionRef,
    Shell,
    Timeout,
)
from holdfast.runtime.cli.caller import command_text, controller, wants_json
from holdfast.runtime.guest.layout import MAIN

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session

Wait = Annotated[bool, typer.Option("--wait", help="Keep waiting even while it waits for an answer.")]


def exec_(
    context: typer.Context,
    session: SessionRef,
    command: Annotated[
        list[str],
        typer.Argument(metavar="TEXT | -- ARG...", help="Text for bash, `-` for standard input, or words."),
    ],
    timeout: Timeout = None,
    patience: Patience = None,
    wait: Wait = False,
    lease_wait: LeaseWait = None,
    busy_wait: BusyWait = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run it apart from the shell and print its id.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="With --detach: a name for the task.")] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only check the syntax: exit code 0, or 2 if bash cannot parse it."),
    ] = False,
    key: Key = None,
    reason: Reason = None,
    shell: Shell = MAIN,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Run a command in the session's shell. Exits with the command's code, or 124 after a timeout.

    75 means that it is waiting for input: answer with `send`, or follow it with `wait`.
    """
    text = command_text(command, separated=bool(context.meta.get("separated")))
    found = controller().session(session)
    if check:
        raise typer.Exit(_checked(found, text, shell, as_json=wants_json(json)))
    if detach and key is not None:
        raise InvalidArgument("cannot use a key with --detach", hint="give the task a --name instead")
    if detach and shell != MAIN:
        raise InvalidArgument("cannot use --shell with --detach", hint="a task has a terminal of its own")
    if detach:
        task_verbs.detach(found, text, name, lease_wait, json=wants_json(json))
        return
    how: dict[str, Any] = {"timeout": timeout, "wait": wait, "lease_wait": lease_wait}
    how |= {"patience": patience, "busy_wait": busy_wait, "key": key, "reason": reason, "shell": shell}
    raise typer.Exit(shell_outcome.run(found, text, how, as_json=wants_json(json), raw=raw))


def _checked(found: Session, text: str, shell: str, *, as_json: bool) -> int:
    """Report whether bash can parse a text, without running it, and return bash's exit code for it."""
    checked = found.check_syntax(text, shell=shell)
    if as_json:
        printing.emit({"id": found.id, "name": found.name, **checked.as_dict()})
    elif not checked.ok:
        printing.note(f"line {checked.line}: {checked.message}" + " (not finished)" * checked.incomplete)
    return 0 if checked.ok else 2


def wait(
    session: SessionRef,
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="Id of a command, or id or name of a task (default: the running command)."
        ),
    ] = None,
    patience: Annotated[
        float | None, typer.Option("--patience", metavar="S", help="Stop waiting after this many seconds.")
    ] = None,
    through: Annotated[
        bool, typer.Option("--wait", help="Keep waiting even while it waits for an answer.")
    ] = False,
    shell: Shell = MAIN,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Wait for a running command to end, printing its output from the start. Exit codes as for `exec`."""
    found = controller().session(session)
    name = command or found.shell(shell).command_id
    if name is None:
        raise InvalidArgument("cannot wait: no command runs in the shell", hint="`holdfast exec` runs one")
    known = [] if command is None else found.tasks()
    with _shown(as_json=wants_json(json), raw=raw) as show:
        if command is not None and any(each.name == command or each.id.startswith(command) for each in known):
            result = found.task(command).wait(on_bytes=show, wait=through, patience=patience)
        else:
            result = found.join(name, wait=through, patience=patience, on_bytes=show, shell=shell)
    raise typer.Exit(shell_outcome.report(found, result, shell, as_json=wants_json(json)))


def _shown(*, as_json: bool, raw: bool) -> AbstractContextManager[Callable[[bytes], None] | None]:
    """Return where to write output as it arrives; programs get it with the result instead."""
    return nullcontext() if as_json else printing.guest_output(raw=raw)


def send(
    session: SessionRef,
    text: Annotated[
        list[str] | None, typer.Argument(help="Text to type; arguments are joined by spaces.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", metavar="NAME", help="Then press a key, such as C-c or Up. Repeatable."),
    ] = None,
    enter: Annotated[bool, typer.Option("--enter", "-e", help="Then press Enter.")] = False,
    through: Annotated[
        bool, typer.Option("--wait", help="Then follow the running command, as `wait` does.")
    ] = False,
    patience: Annotated[
        float | None,
        typer.Option("--patience", metavar="S", help="With --wait: stop waiting after this many seconds."),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="Type into this task's terminal.")
    ] = None,
    shell: Shell = MAIN,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Type text and keys into the session's terminal."""
    from holdfast.runtime.terminal.key_names import keys

    data = " ".join(text or []).encode("utf-8", "surrogateescape") + keys(
        [*(key or []), *(["Enter"] * enter)]
    )
    if not data:
        raise InvalidArgument("cannot send: there is nothing to send", hint="give a text, --key or --enter")
    found = controller().session(session)
    as_json = wants_json(json)
    wanted = found.task(task) if task else None
    if wanted is not None:
        wanted.send(data)
    elif not through:
        found.send(data, shell=shell)
    if through:
        with _shown(as_json=as_json, raw=raw) as show:
            how: dict[str, Any] = {"on_bytes": show, "patience": patience}
            result = wanted.wait(**how) if wanted else found.answer(data, **how, shell=shell)
        raise typer.Exit(shell_outcome.report(found, result, shell, as_json=as_json))
    if as_json:
        printing.emit({"id": found.id, "name": found.name, "bytes": len(data)})


def screen(session: SessionRef, shell: Shell = MAIN, json: Json = False) -> None:
    """Print what the session's terminal shows now."""
    found = controller().session(session)
    shown = found.terminal_of(shell).screen()
    if wants_json(json):
        row, col = shown.cursor
        printing.emit(
            {
                "id": found.id,
                "name": found.name,
                "text": shown.text,
                "rows": shown.rows,
                "cols": shown.cols,
                "cursor": {"row": row, "col": col},
                "title": shown.title,
            }
        )
    else:
        printing.say(shown.text)
