"""Verbs: pin, unpin, policy, quota, autosnap, gc."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from holdfast.base.text import plain
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, SessionRef, SnapshotRefs
from holdfast.runtime.cli.caller import controller, wants_json


def pin(snapshots: SnapshotRefs, json: Json = False) -> None:
    """Keep snapshots until they are deleted by hand, whatever policy and quota say."""
    _pin(snapshots, pinned=True, json=json)


def unpin(snapshots: SnapshotRefs, json: Json = False) -> None:
    """Let policy and quota delete snapshots again."""
    _pin(snapshots, pinned=False, json=json)


def _pin(refs: list[str], *, pinned: bool, json: bool) -> None:
    with controller() as holdfast:
        found = list({item.id: item for item in map(holdfast.snapshot, refs)}.values())
        for item in found:
            item.pin(pinned=pinned)
    if wants_json(json):
        printing.emit([item.as_dict() for item in found])


def policy(
    session: SessionRef,
    every: Annotated[
        int | None, typer.Option(metavar="N", help="Capture after every N commands and cells (0: never).")
    ] = None,
    before_risky: Annotated[
        bool | None,
        typer.Option(
            "--before-risky/--no-before-risky", help="Capture before rm -r, package installs and the like."
        ),
    ] = None,
    risky: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Also treat commands matching this as risky. Repeatable."),
    ] = None,
    on_failure: Annotated[
        bool | None, typer.Option("--on-failure/--no-on-failure", help="Capture after a command fails.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Capture after this long without activity, such as 10m (0: never)."
        ),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="`live` or `filesystem`.")] = None,
    keep: Annotated[
        int | None, typer.Option(metavar="N", help="Keep the last N automatic snapshots.")
    ] = None,
    keep_for: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep automatic snapshots for this long, such as 7d.")
    ] = None,
    hourly: Annotated[
        int | None, typer.Option(metavar="N", help="Keep one per hour for the last N hours.")
    ] = None,
    daily: Annotated[
        int | None, typer.Option(metavar="N", help="Keep one per day for the last N days.")
    ] = None,
    quota: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Most room for this session's snapshots, such as 5g (0: no limit)."
        ),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Clear the policy first.")] = False,
    json: Json = False,
) -> None:
    """Show or set when a session is captured automatically, and which of those snapshots are kept."""
    from holdfast.runtime.store import policy
    from holdfast.runtime.store.policy import Policy

    found = controller().session(session)
    changes: dict[str, Any] = dict.fromkeys(Policy().__slots__) if off else {}
    given: dict[str, Any] = {
        "every": every,
        "before_risky": before_risky,
        "risky": risky,
        "on_failure": on_failure,
    }
    given |= {"kind": kind, "keep": keep, "hourly": hourly, "daily": daily}
    changes |= {name: value for name, value in given.items() if value is not None}
    for name, text in (("idle", idle), ("keep_for", keep_for), ("quota", quota)):
        if text is not None:
            changes[name] = None if text in ("0", "off", "none") else text
    now = found.policy(**changes)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, "policy": now.as_dict()})
    else:
        for line in policy.format_policy(now):
            printing.say(plain(line))


def quota(
    size: Annotated[
        str | None, typer.Argument(metavar="[SIZE|none]", help="Such as 20g; without it, show the limit.")
    ] = None,
    json: Json = False,
) -> None:
    """Limit the room all snapshots may take. The oldest automatic ones are deleted first."""
    from holdfast.runtime.store import policy as policies

    holdfast = controller()
    if size is not None:
        holdfast.keeping.quota = None if size in ("0", "none", "off") else policies.size(size)
    used = sum(row.bytes for row in holdfast.store.snapshots())
    limit = holdfast.keeping.quota
    if wants_json(json):
        printing.emit({"quota": limit, "used": used})
    else:
        printing.say(f"{printing.size(used)} of {printing.size(limit) if limit else 'no limit'}")


def autosnap(
    every: Annotated[float, typer.Option("--every", metavar="S", help="Seconds between checks.", min=1)] = 30,
    once: Annotated[bool, typer.Option("--once", help="Check once and exit.")] = False,
    json: Json = False,
) -> None:
    """Watch sessions whose policy has --idle, in the foreground, and capture them when they are idle."""
    with controller() as holdfast:
        while True:
            for name in holdfast.keeping.capture_idle():
                if wants_json(json):
                    printing.emit({"name": name})
                else:
                    printing.say(name)
            if once:
                return
            time.sleep(every)


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    json: Json = False,
) -> None:
    """Delete what nothing needs: expired snapshots, leftovers of failed operations, old images."""
    found = controller().keeping.collect_garbage(dry_run=dry_run)
    if wants_json(json):
        printing.emit([{"kind": g.kind, "name": g.name, "why": g.why, "bytes": g.bytes} for g in found])
        return
    for one in found:
        printing.say(plain(f"{one.kind} {one.name} ({printing.size(one.bytes)}): {one.why}"))
    verb = "would be removed" if dry_run else "removed"
    printing.note(f"{len(found)} things {verb}, {printing.size(sum(one.bytes for one in found))}")
