"""Verb: shells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.shell_report import ShellInfo


@examples("shells work", "shells work open logs", "shells work close logs")
def shells(
    session: str = SESSION_REF,
    action: str = argument("open|close", default="list", help="Without it, list them."),
    shell: str | None = argument("NAME", default=None, help="Its name."),
    size: str | None = option("--size", metavar="ROWSxCOLS", help="With open: its terminal (40x120)."),
    force: bool = option("--force", help="With close: even if a command runs in it."),
    json: bool = JSON,
) -> None:
    """List the session's shells, open one beside the main one, or close it.

    `exec`, `wait`, `send`, `screen`, `attach`, `lease` and `replay` take its name with `--shell`.
    """
    if shell is None and action in ("open", "close"):
        raise InvalidArgument(f"cannot {action} a shell without its name", hint=f"`shells S {action} NAME`")
    if action not in ("open", "close") and (action, shell) != ("list", None):
        raise InvalidArgument(
            f"cannot do '{plain(action, 40)}' with the shells",
            hint="`holdfast shells S`, `shells S open NAME`, `shells S close NAME`",
        )
    found = controller().session(session)
    as_json = wants_json(json)
    if action == "close":
        found.shells.close(shell or "", force=force)
        if as_json:
            printing.emit({"id": found.id, "name": found.name, "closed": shell})
    elif action == "open":
        rows, cols = _size(size)
        one = found.shells.open(shell or "", rows=rows, cols=cols)
        if as_json:
            printing.emit({"id": found.id, "name": found.name, **_fields(one)})
    elif as_json:
        printing.emit([_fields(one) for one in found.shells.list()])
    else:
        printing.table(
            ("NAME", "PID", "STATE", "SIZE", "DIRECTORY", "HELD BY"),
            [
                (one.name, str(one.pid), one.state, f"{one.rows}x{one.cols}", one.cwd, one.holder or "")
                for one in found.shells.list()
            ],
        )


def _size(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    if (found := re.fullmatch(r"([0-9]{1,4})x([0-9]{1,4})", text)) is None:
        raise InvalidArgument(f"cannot use the size '{plain(text, 40)}'", hint="rows x columns, as in 40x120")
    return int(found[1]), int(found[2])


def _fields(one: ShellInfo) -> dict[str, Any]:
    return {
        "shell": one.name,
        "pid": one.pid,
        "state": one.state,
        "rows": one.rows,
        "cols": one.cols,
        "cwd": one.cwd,
        "command": one.command_id,
        "holder": one.holder,
    }
