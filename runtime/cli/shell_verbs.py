"""Verbs: exec, wait, send, screen."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.runtime.cli import shell_actions
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
from holdfast.runtime.guest.defaults import MAIN

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
        bool, typer.Option("--detach", "-d", help="Run it as a job, outside the shell, and print its id.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="With --detach: a name for the job.")] = None,
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
    how: dict[str, Any] = {"timeout": timeout, "wait": wait, "lease_wait": lease_wait}
    how |= {"patience": patience, "busy_wait": busy_wait, "key": key, "reason": reason, "shell": shell}
    how |= {"detach": detach, "name": name, "check": check, "raw": raw, "json": json}
    separated = bool(context.meta.get("separated"))
    raise typer.Exit(shell_actions.execute(session, command, separated=separated, **how))


def wait(
    session: SessionRef,
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="Id of a command, or id or name of a job (default: the running command)."
        ),
    ] = None,
    patience: Annotated[
        float | None, typer.Option("--patience", metavar="S", help="Stop waiting after this many seconds.")
    ] = None,
    through: Annotated[
        bool, typer.Option("--wait", help="Keep waiting even while it waits for an answer.")
    ] = False,
    shell: Shell = MAIN,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="N", help="Wait until a server accepts at this port, 60 s without --patience."
        ),
    ] = None,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Wait for a running command to end, printing its output from the start. Exit codes as for `exec`.

    With --port, wait for a server instead.
    """
    how: dict[str, Any] = {"patience": patience, "through": through, "shell": shell, "raw": raw, "json": json}
    how["port"] = port
    raise typer.Exit(shell_actions.wait(session, command, **how))


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
    job: Annotated[
        str | None, typer.Option("--job", metavar="JOB", help="Type into this job's terminal.")
    ] = None,
    shell: Shell = MAIN,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Type text and keys into the session's terminal."""
    how: dict[str, Any] = {"key": key, "enter": enter, "through": through, "patience": patience}
    how |= {"job": job, "shell": shell, "raw": raw, "json": json}
    raise typer.Exit(shell_actions.send(session, text, **how))


def screen(session: SessionRef, shell: Shell = MAIN, json: Json = False) -> None:
    """Print what the session's terminal shows now."""
    raise typer.Exit(shell_actions.screen(session, shell=shell, json=json))
