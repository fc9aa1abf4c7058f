"""Verbs of Jupyter kernels: cell, kernel interrupt, kernel restart, kernels."""

from __future__ import annotations

import sys

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import BUSY_WAIT, JSON, KERNEL_NAME, KEY, REASON, SESSION_REF, TIMEOUT
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.guest import defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.cli.cell_view import CellView
    from holdfast.runtime.guest_rpc.kernel_report import KernelInfo
    from holdfast.runtime.guest_rpc.results import CellEvent

EXIT = {"ok": 0, "error": 1, "restarted": 1, "died": 1, "timeout": 124, "interrupted": 130, "waiting": 75}
"""The exit code for each way a cell ends."""


@examples(
    "cell work 'sum(range(10))'",
    "cell work - < plot.py            # prints where each picture is",
    "cell work --save plots - < plot.py",
)
def cell(
    session: str = SESSION_REF,
    code: str = argument("CODE", help="Code for the kernel, or `-` for standard input."),
    timeout: float | None = TIMEOUT,
    busy_wait: float | None = BUSY_WAIT,
    key: str | None = KEY,
    reason: str | None = REASON,
    kernel: str | None = KERNEL_NAME,
    save: str | None = option(
        "--save", metavar="DIR", help="Keep the pictures that the cell shows in this folder."
    ),
    json: bool = JSON,
) -> int:
    """Run code in the session's kernel and print like a REPL. Standard input answers input()."""
    how: dict[str, Any] = {"timeout": timeout, "busy_wait": busy_wait, "key": key, "reason": reason}
    if kernel is not None:
        how["kernel"] = kernel
    if code == "-":
        code = sys.stdin.read()
    found = controller().session(session)
    if wants_json(json):
        result = found.cell(code, **how, on_input=_read)
        from holdfast.runtime.api import results_as_json

        printing.emit({"id": found.id, "name": found.name, **results_as_json.cell_result(result)})
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


@examples("kernel interrupt work")
def interrupt(session: str = SESSION_REF, kernel: str | None = KERNEL_NAME, json: bool = JSON) -> None:
    """Interrupt the running cell."""
    found = controller().session(session)
    found.kernel.interrupt(kernel or defaults.MAIN)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name})


@examples("kernel restart work")
def restart(session: str = SESSION_REF, kernel: str | None = KERNEL_NAME, json: bool = JSON) -> None:
    """Restart the kernel. Its variables are lost."""
    found = controller().session(session)
    found.kernel.restart(kernel or defaults.MAIN)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name})


@examples("kernels work", "kernels work open lab")
def kernels(
    session: str = SESSION_REF,
    action: str = argument("open|close", default="list", help="Without an action, list them."),
    kernel: str | None = argument("NAME", default=None, help="Its name."),
    spec: str | None = option("--spec", metavar="SPEC", help="With open: its spec (default python3)."),
    force: bool = option("--force", help="With close: even if a cell runs in it."),
    json: bool = JSON,
) -> None:
    """List the session's kernels and the available specs, open a further kernel, or close it.

    `cell`, `kernel interrupt` and `kernel restart` take its name with `--kernel`.
    """
    if kernel is None and action in ("open", "close"):
        raise InvalidArgument(f"cannot {action} a kernel without its name", hint=f"`kernels S {action} NAME`")
    if action not in ("open", "close") and (action, kernel) != ("list", None):
        raise InvalidArgument(
            f"cannot do '{plain(action, 40)}' with the kernels",
            hint="`holdfast kernels S`, `kernels S open NAME --spec SPEC`, `kernels S close NAME`",
        )
    found = controller().session(session)
    as_json = wants_json(json)
    if action == "close":
        found.kernels.close(kernel or "", force=force)
        if as_json:
            printing.emit({"id": found.id, "name": found.name, "closed": kernel})
        return
    if action == "open":
        one = found.kernels.open(kernel or "", **({} if spec is None else {"spec": spec}))
        if as_json:
            printing.emit({"id": found.id, "name": found.name, **_fields(one)})
        return
    opened, specs = found.kernels.list(), found.kernels.specs()
    if as_json:
        printing.emit(
            {"kernels": [_fields(each) for each in opened], "specs": [each.model_dump() for each in specs]}
        )
        return
    printing.table(
        ("NAME", "SPEC", "LANGUAGE", "PID", "STATE"),
        [(each.name, each.spec, each.language, str(each.pid or ""), each.state) for each in opened],
    )
    printing.say("")
    printing.table(
        ("SPEC", "LANGUAGE", "DESCRIPTION"),
        [(each.name, each.language, each.display_name) for each in specs],
    )


def _fields(one: KernelInfo) -> dict[str, Any]:
    fields = one.model_dump(include={"spec", "language", "cwd", "pid", "state", "epoch"})
    return {"kernel": one.name, **fields}
