"""Verbs: exec, send, screen, attach."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from holdfast.runtime.cli import output
from holdfast.runtime.cli.arguments import (
    Json,
    SessionRef,
    Timeout,
    command_text,
    controller,
    wants_json,
)


def exec_(
    context: typer.Context,
    session: SessionRef,
    command: Annotated[
        list[str],
        typer.Argument(metavar="TEXT | -- ARG...", help="Text for bash, `-` for standard input, or words."),
    ],
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Run a command in the session's shell. The exit code is the command's; 124 after a timeout."""
    text = command_text(command, separated=bool(context.meta.get("separated")))
    found = controller().session(session)
    if wants_json(json):
        result = found.exec(text, timeout=timeout)
        output.emit({"id": found.id, "name": found.name, **output.exec_result(result)})
    else:
        try:
            result = found.exec(text, timeout=timeout, on_output=output.write_raw)
        except BrokenPipeError:
            found.interrupt()  # nobody reads on: what still writes would hold the shell for ever
            raise
        if result.lost:
            output.note(
                f"{output.size(result.lost)} of the output were lost: it came faster than it was read"
            )
        if result.incomplete:
            output.note("the command is incomplete: a quote or a block is open at its end")
        if result.timed_out:
            output.note(f"the command was interrupted after {timeout:g} s")
        if result.shell_exited:
            output.note("the shell ended; the next command gets a new one")
    if result.timed_out:
        raise typer.Exit(124)
    raise typer.Exit(1 if result.exit_code is None else result.exit_code & 0xFF)


def send(
    session: SessionRef,
    text: Annotated[list[str] | None, typer.Argument(help="Text to type, joined by spaces.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", metavar="NAME", help="Then a key: C-c, Up. Repeat for more."),
    ] = None,
    enter: Annotated[bool, typer.Option("--enter", "-e", help="Then Enter.")] = False,
    json: Json = False,
) -> None:
    """Type text and keys into the session's terminal."""
    from holdfast.errors import InvalidArgument
    from holdfast.runtime.keys import keys

    data = " ".join(text or []).encode("utf-8", "surrogateescape") + keys(
        [*(key or []), *(["Enter"] * enter)]
    )
    if not data:
        raise InvalidArgument("cannot send: there is nothing to send", hint="give a text, --key or --enter")
    found = controller().session(session)
    found.send(data)
    if wants_json(json):
        output.emit({"id": found.id, "name": found.name, "bytes": len(data)})


def screen(session: SessionRef, json: Json = False) -> None:
    """Show what the session's terminal shows."""
    found = controller().session(session)
    shown = found.terminal.screen()
    if wants_json(json):
        row, col = shown.cursor
        output.emit(
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
        output.say(shown.text)


def attach(
    session: SessionRef,
    detach_key: Annotated[
        str, typer.Option("--detach-key", metavar="NAME", help="Such as C-] or C-q.")
    ] = "C-]",
    json: Json = False,
) -> None:
    """Join your terminal to the session's. C-] leaves; the session goes on."""
    found = controller().session(session)
    if sys.stdin.isatty():
        output.note(f"{detach_key} leaves the session")
    reason = found.terminal.attach(detach_key=detach_key)
    if wants_json(json):
        output.emit({"id": found.id, "name": found.name, "reason": reason})
    else:
        output.note(
            f"{reason} from session {found.name}"
            if reason == "detached"
            else f"the shell was closed: {reason}"
        )
