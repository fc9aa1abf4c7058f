"""Verbs: cell, kernel interrupt, kernel restart."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.runtime.cli import kernel_actions, printing
from holdfast.runtime.cli.arguments import BusyWait, Json, KernelName, Key, Reason, SessionRef, Timeout
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.guest import defaults

app = typer.Typer(
    help="Interrupt or restart a session's Jupyter kernel.", no_args_is_help=True, rich_markup_mode=None
)


def cell(
    session: SessionRef,
    code: Annotated[str, typer.Argument(help="Code for the kernel, or `-` for standard input.")],
    timeout: Timeout = None,
    busy_wait: BusyWait = None,
    key: Key = None,
    reason: Reason = None,
    kernel: KernelName = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="DIR", help="Keep the pictures that the cell shows in this folder."),
    ] = None,
    json: Json = False,
) -> None:
    """Run code in the session's kernel and print like a REPL. Standard input answers input()."""
    how: dict[str, Any] = {"timeout": timeout, "busy_wait": busy_wait, "key": key, "reason": reason}
    how["kernel"] = kernel
    raise typer.Exit(kernel_actions.cell(session, code, json=json, save=save, **how))


@app.command()
def interrupt(session: SessionRef, kernel: KernelName = None, json: Json = False) -> None:
    """Interrupt the running cell."""
    found = controller().session(session)
    found.kernel.interrupt(kernel or defaults.MAIN)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name})


@app.command()
def restart(session: SessionRef, kernel: KernelName = None, json: Json = False) -> None:
    """Restart the kernel. Its variables are lost."""
    found = controller().session(session)
    found.kernel.restart(kernel or defaults.MAIN)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name})
