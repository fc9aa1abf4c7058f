"""Verb: redo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.base.text import plain
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, NAME_OPTION, SNAPSHOT_REF
from holdfast.runtime.cli.caller import controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import examples, option
from holdfast.runtime.cli.reporting import Exit
from holdfast.runtime.cli.stated_action_rows import LONGEST, first_line

if TYPE_CHECKING:
    from holdfast.runtime.api.redo_snapshot import Redo
    from holdfast.runtime.task.redo_rules import RedoneAction


@examples("redo before --name again")
def redo(
    snapshot: str = SNAPSHOT_REF,
    name: str | None = NAME_OPTION,
    since: str | None = option(
        "--from",
        metavar="SNAPSHOT",
        help="Begin from this one of its past, or `begin`: a fresh session. Default: the last possible.",
    ),
    rung: Literal["live", "files"] | None = option(
        "--as", metavar="RUNG", help="How to restore the base: live or files. Default: the best."
    ),
    skip: list[str] | None = option("--skip", metavar="#N", help="Leave this entry out. Repeatable."),
    repeat: list[str] | None = option(
        "--repeat", metavar="KEY", help="Repeat what was sent with this key. Repeatable."
    ),
    exit_codes: bool = option("--exit-codes", help="Compare exit codes only, and no outputs."),
    timeout: float = option(
        "--timeout", default=600.0, metavar="S", help="The most seconds for each command."
    ),
    json: bool = JSON,
) -> None:
    """Repeat in a new session what led to a snapshot, up to the first difference; then exit code 1.

    For where the snapshot cannot be restored live. What was sent with a key, to run once, is skipped.
    """
    as_json = wants_json(json)
    told: dict[str, Any] = {} if as_json or is_over_a_url() else {"on_action": _tell}
    found = (
        controller()
        .snapshot(snapshot)
        .redo(
            name,
            since=since,
            rung=rung,
            skip=skip or (),
            repeat=repeat or (),
            exit_codes=exit_codes,
            timeout=timeout,
            **told,
        )
    )
    if as_json:
        printing.emit(found.as_dict())
    else:
        if not told:
            for each in found.actions:
                _tell(each)
        _summarize(found)
    if not found.complete:
        raise Exit(1)


def _tell(each: RedoneAction) -> None:
    line = plain(first_line(each.action), LONGEST)
    printing.note(plain(f"{each.action.entry} {line}: {each.fate}{f': {each.why}' if each.why else ''}", 300))


def _summarize(found: Redo) -> None:
    fates = [each.fate for each in found.actions]
    begun = f"{found.base} ({found.rung})" if found.base else "a fresh session"
    printing.note(f"from {begun}: {fates.count('same')} the same, {fates.count('skipped')} skipped")
    if not found.complete:
        last = found.actions[-1].action.entry if found.actions else "the beginning"
        printing.note(
            f"it ended at {last}, {found.left} were not reached; `--skip` leaves an entry out; "
            f"continue by hand: `holdfast attach {found.session}`"
        )
    printing.say(found.session)
