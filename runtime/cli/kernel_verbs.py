"""Verbs: cell, kernel interrupt, kernel restart."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.base.text import colored
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import BusyWait, Json, Key, Reason, SessionRef, Timeout
from holdfast.runtime.cli.caller import controller, wants_json

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.results import CellEvent

# The exit code for each way a cell ends.
EXIT = {"ok": 0, "error": 1, "restarted": 1, "died": 1, "timeout": 124, "interrupted": 130, "waiting": 75}

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
    json: Json = False,
) -> None:
    """Run code in the session's kernel and print like a REPL. Standard input answers input()."""
    if code == "-":
        code = sys.stdin.read()
    found = controller().session(session)
    how: dict[str, Any] = {"timeout": timeout, "busy_wait": busy_wait, "key": key, "reason": reason}
    if wants_json(json):
        result = found.cell(code, **how, on_input=_read)
        printing.emit({"id": found.id, "name": found.name, **printing.cell_result(result)})
    else:
        result = found.cell(code, **how, on_event=_show, on_input=_ask)
        if result.recorded:
            printing.note("it ran before under this key; what it showed is no longer kept")
        if result.lost:
            printing.note(
                f"{printing.size(result.lost)} of the output were lost: they came faster than they were read"
            )
        if result.status not in ("ok", "error"):
            printing.note(f"the cell ended early: {result.status}")
    raise typer.Exit(EXIT[result.status])


@app.command()
def interrupt(session: SessionRef, json: Json = False) -> None:
    """Interrupt the running cell."""
    found = controller().session(session)
    found.kernel.interrupt()
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name})


@app.command()
def restart(session: SessionRef, json: Json = False) -> None:
    """Restart the kernel. Its variables are lost."""
    found = controller().session(session)
    found.kernel.restart()
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name})


def _show(event: CellEvent) -> None:
    if event.kind == "stream":
        stream = sys.stderr if event.name == "stderr" else sys.stdout
        stream.write(colored(event.text, keep=stream.isatty()))
        stream.flush()
    elif event.kind == "error" and event.error is not None:
        text = "\n".join(event.error.traceback) or f"{event.error.ename}: {event.error.evalue}"
        sys.stdout.flush()
        sys.stderr.write(colored(text, keep=sys.stderr.isatty()) + "\n")
    elif event.kind in ("execute_result", "display_data"):
        value = event.data.get("text/plain")
        shown = value if isinstance(value, str) else f"<{', '.join(map(str, event.data))}>"
        sys.stdout.write(colored(shown, keep=sys.stdout.isatty()) + "\n")
        sys.stdout.flush()


def _ask(prompt: str, password: bool) -> str:
    if password and sys.stdin.isatty():
        import getpass

        return getpass.getpass(colored(prompt, keep=False))
    sys.stdout.write(colored(prompt, keep=sys.stdout.isatty()))
    sys.stdout.flush()
    return _read(prompt, password)


def _read(_prompt: str, _password: bool) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")
