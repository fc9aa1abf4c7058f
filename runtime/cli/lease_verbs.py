"""Verb: lease."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.base.quantities import parse_duration
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF, SHELL
from holdfast.runtime.cli.caller import EarlyOptions, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.shell_report import Lease


@examples("lease work", "lease work take --for 10m", "lease work return")
def lease(
    session: str = SESSION_REF,
    action: str = argument("[take|return|give]", default="show", help="Without it, show the holder."),
    to: str | None = argument("TO", default=None, help="With give: person:NAME or agent:NAME."),
    for_: str | None = option(
        "--for", metavar="TIME", help="For how long, such as 90s, 10m or 2h (default 15m)."
    ),
    as_: str | None = option("--as", metavar="ACTOR", help="The actor: person:NAME or agent:NAME."),
    force: bool = option("--force", help="Take it even if someone holds it."),
    shell: str = SHELL,
    json: bool = JSON,
) -> None:
    """Show who holds the session's shell, take it, return it, or hand it over."""
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
