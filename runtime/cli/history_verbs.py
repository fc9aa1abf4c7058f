"""Verbs for changes and stored states: snapshots, rewind, diff, drift, redo, verify."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import (
    JSON,
    NAME_OPTION,
    REASON,
    SESSION_REF,
    SNAPSHOT_REF,
    snapshot_names,
)
from holdfast.runtime.cli.caller import context_of, controller, is_over_a_url, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.observe_verbs import LONGEST, first_line
from holdfast.runtime.cli.reporting import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from holdfast.runtime.api.redo_snapshot import Redo
    from holdfast.runtime.task.redo_rules import RedoneAction

WIDE = 120
"""Columns of a tree that is not shown in a terminal."""
LIMIT = option("--limit", default=12, help="Most lines in each list, roughly.", least=1)
EVERY = option("--files", help="List every file instead of folding them into folders.")
ALL = option("--all", help="Include caches and similar noise.")


@examples("snapshots", "snapshots --tree")
def snapshots(
    tree: bool = option("--tree", help="Show a tree, with sessions and the commands run in between."),
    session: str | None = option(
        "--session", "-s", metavar="SESSION", help="Only this session's ancestors and own snapshots."
    ),
    json: bool = JSON,
) -> None:
    """List snapshots: kind, size, age, reason and parent."""
    from holdfast.runtime.history.lineage.draw_tree import Form, draw
    from holdfast.runtime.history.lineage.overview import marks, overview, why
    from holdfast.runtime.journal.journal_query import find
    from holdfast.runtime.storage import snapshot_storage

    as_json = wants_json(json)
    holdfast = controller()
    if not isinstance(holdfast, Holdfast) and not tree and session is None:
        _listed(holdfast.snapshots(), as_json=as_json)
        return
    context = context_of(holdfast, "snapshots --tree")
    found = overview(context, with_ran=tree or as_json)
    if session is not None:
        found = found.of(find(context, session))
    now = datetime.now(UTC)
    if as_json:
        taken = [{**Snapshot(context, row).as_dict(), **found.as_dict(row)} for row in found.snapshots]
        going = [{**Session(context, row).as_dict(), **found.as_dict(row)} for row in found.sessions]
        if tree:
            printing.emit({"snapshots": taken, "sessions": going})
        else:
            printing.emit(taken)
    elif tree:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
        for line in draw(found, Form(width, now, printing.size, printing.ago)):
            printing.say(line)
    else:
        snapshot_storage.report_trouble(context)
        names = {row.id: row.name for row in found.snapshots}
        printing.table(
            ("NAME", "KIND", "SIZE", "AGE", "OF", "AFTER", "", "WHY"),
            (
                (
                    row.name,
                    row.kind,
                    printing.size(row.bytes),
                    printing.ago(row.created_at, now),
                    found.names.get(row.session_id, row.session_id),
                    names.get(found.above.get(row.id) or "", "-"),
                    ", ".join(marks(row)),
                    why(row),
                )
                for row in found.snapshots
            ),
        )


def _listed(found: Sequence[Snapshot], *, as_json: bool) -> None:
    """Print snapshots as a server reports them, without the home's own records."""
    if as_json:
        printing.emit([one.as_dict() for one in found])
        return
    now = datetime.now(UTC)
    printing.table(
        ("NAME", "KIND", "SIZE", "AGE", "WHY"),
        (
            (one.name, one.kind, printing.size(one.size), printing.ago(one.created_at, now), one.reason or "")
            for one in found
        ),
    )


@examples("rewind work before", "rewind work before --discard    # keep nothing of the present")
def rewind(
    session: str = SESSION_REF,
    snapshot: str = SNAPSHOT_REF,
    keep: str | None = option("--keep", metavar="LABEL", help="Label for the snapshot of the present state."),
    discard: bool = option(
        "--discard", help="Do not snapshot the present state: changes since the last one are lost."
    ),
    force: bool = option("--force", help="Allow a snapshot from a different session's lineage."),
    reason: str | None = REASON,
    json: bool = JSON,
) -> None:
    """Take a session back to a snapshot, in place (`@-1`: the last one). The present is captured first."""
    found = (
        controller().session(session).rewind(snapshot, keep=keep, discard=discard, force=force, reason=reason)
    )
    if wants_json(json):
        printing.emit(found.as_dict())
        return
    printing.say(found.session.name)
    if found.kept is not None:
        printing.note(f"its previous state is kept in snapshot {found.kept.name}")
    if found.lost:
        printing.note(f"{found.lost} commands came after that and are in no snapshot")
    for deviation in found.deviations:
        printing.note(deviation)


@examples("diff before after", "diff before after --files")
def diff(
    before: str = argument("SNAP", help="Label or id of a snapshot."),
    after: str = argument("SNAP", help="Label or id of the second snapshot."),
    limit: int = LIMIT,
    files: bool = EVERY,
    everything: bool = ALL,
    json: bool = JSON,
) -> None:
    """Show the differences between two snapshots, on any branches."""
    result = controller().diff(before, after, everything=everything)
    if wants_json(json):
        printing.emit(result.as_dict())
    else:
        printing.say(result.text(limit, every_file=files))


@examples("drift work    # since its last snapshot", "drift work --since before")
def drift(
    session: str = SESSION_REF,
    since: str | None = option(
        "--since",
        metavar="MOMENT",
        help=(
            "A snapshot, a journal entry (#12), a command's id, an age (10m) or a time. Default: the last "
            "capture, or the beginning."
        ),
    ),
    limit: int = LIMIT,
    files: bool = EVERY,
    everything: bool = ALL,
    json: bool = JSON,
) -> None:
    """Show the changes in a session since a moment, and their actors."""
    found = controller().session(session)
    result = found.drift(since, everything=everything)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, **result.as_dict()})
    else:
        printing.say(result.text(limit, every_file=files))


@examples("redo before --name again")
def redo(
    snapshot: str = SNAPSHOT_REF,
    name: str | None = NAME_OPTION,
    since: str | None = option(
        "--from",
        metavar="SNAPSHOT",
        help="Begin from this ancestor, or from `begin`, a fresh session. Default: the latest possible.",
    ),
    rung: Literal["live", "files"] | None = option(
        "--as", metavar="RUNG", help="How to restore the base: live or files. Default: the best."
    ),
    skip: list[str] | None = option("--skip", metavar="#N", help="Leave this entry out. Repeatable."),
    repeat: list[str] | None = option(
        "--repeat", metavar="KEY", help="Repeat what was sent with this key. Repeatable."
    ),
    exit_codes: bool = option("--exit-codes", help="Compare exit codes only, not outputs."),
    timeout: float = option(
        "--timeout", default=600.0, metavar="S", help="The most seconds for each command."
    ),
    json: bool = JSON,
) -> None:
    """Repeat in a new session the actions that led to a snapshot, up to the first difference; then exit code
    1.

    Use it where the snapshot cannot be restored live. Commands with a key, which run once, are skipped.
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


@examples("verify", "verify before")
def verify(
    snapshots: list[str] | None = argument(
        "[SNAPSHOT...]", default=None, help="Labels or ids.", names=snapshot_names
    ),
    json: bool = JSON,
) -> None:
    """Check every stored byte of snapshots and repair what can be repaired. Exit code 1 if one is damaged."""
    with controller() as holdfast:
        found = holdfast.verify(*(snapshots or []))
    if wants_json(json):
        printing.emit(
            {
                "ok": found.ok,
                "snapshots": found.snapshots,
                "bytes": found.bytes,
                "damaged": found.damaged,
                "newer": found.newer,
                "findings": [as_table(one) for one in found.findings],
            }
        )
    else:
        for one in found.findings:
            printing.say(plain(str(one), 400))
        for name in found.newer:
            printing.say(f"snapshot {name}: not checked, a newer version of Holdfast wrote it")
        repaired = sum(one.repaired for one in found.findings)
        facts = [f"{found.snapshots} snapshots", f"{printing.size(found.bytes)} compared"]
        facts += [f"{len(found.damaged)} damaged"] if found.damaged else []
        facts += [f"{repaired} repaired"] if repaired else []
        facts += [f"{len(found.newer)} not checked"] if found.newer else []
        printing.say(", ".join(facts) + ("" if found.findings or found.newer else ": all whole"))
    if not found.ok:
        raise Exit(1)
