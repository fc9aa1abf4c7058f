"""Verbs of a session's terminals: attach, lease, shells."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime

from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, RAW, SESSION_REF, SHELL
from holdfast.runtime.cli.caller import EarlyOptions, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo


@examples("attach work              # C-] leaves it", "attach work --view       # watch only")
def attach(
    session: str = SESSION_REF,
    detach_key: str = option(
        "--detach-key", default="C-]", metavar="NAME", help="The key that detaches, such as C-] or C-q."
    ),
    view: bool = option("--view", help="Watch only; your typing is not passed on."),
    take: bool = option("--take", help="Take the shell even if someone holds it."),
    shell: str = SHELL,
    raw: bool = RAW,
    no_status: bool = option("--no-status", help="Show no status line; C-^ s switches it on and off."),
    web: bool = option("--web", help="Print a link to the session's web page, and join nothing."),
    json: bool = JSON,
) -> None:
    """Join the session's terminal. C-] detaches; the session keeps running. C-^ ? shows further keys.

    If the shell is free, you hold it until you leave; commands of others wait or are refused. Programs
    work as usual, but cannot reach your terminal's clipboard or title.
    """
    if web:
        from holdfast.runtime.cli import page_verbs

        page_verbs.open_(session, only_print=True, json=json)
        return
    found = controller().session(session)
    if sys.stdin.isatty():
        printing.note(f"{detach_key} leaves the session")
    reason = found.terminal_of(shell).attach(
        detach_key=detach_key, read_only=view, take=take, unfiltered=raw, status=not no_status
    )
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, "reason": reason})
    else:
        printing.note(
            f"{reason} from session {found.name}"
            if reason == "detached"
            else "the shell was closed" + (f": {reason}" if reason != "closed" else "")
        )


@examples("lease work", "lease work take --for 10m", "lease work return")
def lease(
    session: str = SESSION_REF,
    action: str = argument("[take|return|give]", default="show", help="Without an action, show the holder."),
    to: str | None = argument("TO", default=None, help="With give: person:NAME or agent:NAME."),
    for_: str | None = option(
        "--for", metavar="TIME", help="For how long, such as 90s, 10m or 2h (default 15m)."
    ),
    as_: str | None = option("--as", metavar="ACTOR", help="The actor: person:NAME or agent:NAME."),
    force: bool = option("--force", help="Take it even if someone holds it."),
    shell: str = SHELL,
    json: bool = JSON,
) -> None:
    """Show the holder of the session's shell, take it, return it, or hand it over."""
    if (to is None) == (action == "give") or action not in ("show", "take", "return", "give"):
        raise InvalidArgument(
            f"cannot do '{plain(action, 40)}' with the lease",
            hint="`holdfast lease S`, `lease S take`, `lease S return`, `lease S give person:alice`",
        )
    seconds = None if for_ is None else duration(for_)
    EarlyOptions.actor = as_ or EarlyOptions.actor
    found = controller().session(session)
    terminal = found.terminal_of(shell)
    if action == "take":
        state = terminal.take(seconds, force=force)
    elif action == "return":
        state = terminal.give_back()
    elif action == "give":
        state = terminal.give(to or "", seconds)
    else:
        state = terminal.lease()
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, **state.model_dump()})
    else:
        for line in _lines(state):
            printing.say(line)


def duration(text: str) -> float:
    """Return the seconds of a time such as 90, 90s, 10m, 2h.

    Raises:
        InvalidArgument: it is not a time.
    """
    seconds = parse_duration(text)
    if not seconds:
        raise InvalidArgument(f"cannot use the time '{plain(text, 40)}'", hint="for example 90s, 10m or 2h")
    return seconds


def _lines(state: Lease) -> list[str]:
    if state.holder is None:
        lines = ["no one holds the shell"]
    else:
        now = datetime.now(UTC)
        line = f"{state.holder} holds the shell"
        if state.since is not None:
            line += f", taken {printing.ago(datetime.fromtimestamp(state.since, UTC), now)}"
        if state.active is not None:
            line += f", last active {printing.ago(datetime.fromtimestamp(state.active, UTC), now)}"
        if state.until is not None:
            line += f", until {datetime.fromtimestamp(state.until, UTC):%H:%M:%S} UTC"
        lines = [line]
    for one in state.attached:
        does = "writes" if one.writes else "looks on"
        lines.append(f"attached: {one.actor}, {one.rows} x {one.cols}, {does}")
    return lines


@examples("shells work", "shells work open logs", "shells work close logs")
def shells(
    session: str = SESSION_REF,
    action: str = argument("open|close", default="list", help="Without an action, list them."),
    shell: str | None = argument("NAME", default=None, help="Its name."),
    size: str | None = option("--size", metavar="ROWSxCOLS", help="With open: its terminal (40x120)."),
    force: bool = option("--force", help="With close: even if a command runs in it."),
    json: bool = JSON,
) -> None:
    """List the session's shells, open a further shell, or close it.

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
