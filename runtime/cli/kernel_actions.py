"""What cell does, given its parameters. Loads no Typer.

The parameters are described where they are defined, in `kernel_verbs`.
"""

from __future__ import annotations

import sys

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import controller, wants_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.cli.cell_view import CellView
    from holdfast.runtime.guest_rpc.results import CellEvent

# The exit code for each way a cell ends.
EXIT = {"ok": 0, "error": 1, "restarted": 1, "died": 1, "timeout": 124, "interrupted": 130, "waiting": 75}


def cell(
    session: str,
    code: str,
    *,
    json: bool = False,
    kernel: str | None = None,
    save: str | None = None,
    **how: Any,
) -> int:
    """Run code and return the exit code; `how` is for `Session.cell`."""
    if kernel is not None:
        how["kernel"] = kernel
    if code == "-":
        code = sys.stdin.read()
    found = controller().session(session)
    if wants_json(json):
        result = found.cell(code, **how, on_input=_read)
        from holdfast.runtime.api import plain_tables

        printing.emit({"id": found.id, "name": found.name, **plain_tables.cell_result(result)})
    else:
        from holdfast.runtime.cli.cell_view import CellView

        view = CellView(found.name, save)
        result = found.cell(code, **how, on_event=lambda event: _show(event, view), on_input=_ask)
        if result.recorded:
            printing.note("it ran before under this key; its output is no longer kept")
        if result.lost:
            printing.note(
                f"{printing.size(result.lost)} of the output were lost: they came faster than they were read"
            )
        if result.status not in ("ok", "error"):
            printing.note(f"the cell ended early: {result.status}")
    return EXIT[result.status]


def _show(event: CellEvent, view: CellView) -> None:
    if event.kind == "stream":
        view.stream(event.name, event.text)
    elif event.kind == "error" and event.error is not None:
        view.error(event.error.ename, event.error.evalue, event.error.traceback)
    elif event.kind in ("execute_result", "display_data"):
        view.bundle(event.data)


def _ask(prompt: str, password: bool) -> str:
    from holdfast.base.text import colored

    if password and sys.stdin.isatty():
        import getpass

        return getpass.getpass(colored(prompt, keep=False))
    sys.stdout.write(colored(prompt, keep=printing.has_color(sys.stdout)))
    sys.stdout.flush()
    return _read(prompt, password)


def _read(_prompt: str, _password: bool) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")
