"""Verbs: pin, unpin, policy, quota, autosnap, gc."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from holdfast.runtime.cli import output
from holdfast.runtime.cli.arguments import Json, SessionRef, SnapshotRefs, controller, wants_json
from holdfast.runtime.text import plain


def pin(snapshots: SnapshotRefs, json: Json = False) -> None:
    """Keep snapshots until they are removed by hand: no policy and no quota does."""
    _pin(snapshots, pinned=True, json=json)


def unpin(snapshots: SnapshotRefs, json: Json = False) -> None:
    """Leave snapshots to policy and quota again."""
    _pin(snapshots, pinned=False, json=json)


def _pin(refs: list[str], *, pinned: bool, json: bool) -> None:
    with controller() as holdfast:
        found = list({item.id: item for item in map(holdfast.snapshot, refs)}.values())
        for item in found:
            item.pin(pinned=pinned)
    if wants_json(json):
        output.emit([output.snapshot(item) for item in found])


def policy(
    session: SessionRef,
    every: Annotated[
        int | None, typer.Option(metavar="N", help="After N commands and cells; 0: not.")
    ] = None,
    before_risky: Annotated[
        bool | None, typer.Option("--before-risky/--no-before-risky", help="Before rm -r, installs, ...")
    ] = None,
    risky: Annotated[
        list[str] | None, typer.Option(metavar="REGEX", help="What is risky, too. Repeat for more.")
    ] = None,
    on_failure: Annotated[
        bool | None, typer.Option("--on-failure/--no-on-failure", help="After a command that fails.")
    ] = None,
    idle: Annotated[
        str | None, typer.Option(metavar="TIME", help="After 10m without anything; 0: not.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="`live` or `filesystem`.")] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", help="Keep the last N automatic ones.")] = None,
    keep_for: Annotated[str | None, typer.Option(metavar="TIME", help="Keep those younger than 7d.")] = None,
    hourly: Annotated[int | None, typer.Option(metavar="N", help="Keep one for each of N hours.")] = None,
    daily: Annotated[int | None, typer.Option(metavar="N", help="Keep one for each of N days.")] = None,
    quota: Annotated[str | None, typer.Option(metavar="SIZE", help="Such as 5g; 0: none.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Back to no policy, before anything else.")] = False,
    json: Json = False,
) -> None:
    """Say when a session is captured by itself, and how long these snapshots are kept. Shows what holds."""
    from holdfast.runtime.keeping import texts
    from holdfast.runtime.keeping.policy import Policy

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
        output.emit({"id": found.id, "name": found.name, "policy": now.as_dict()})
    else:
        for line in texts.told(now):
            output.say(plain(line))


def quota(
    size: Annotated[
        str | None, typer.Argument(metavar="[SIZE|none]", help="Such as 20g; left out: what holds.")
    ] = None,
    json: Json = False,
) -> None:
    """Limit the bytes that all snapshots may take. The oldest automatic ones make room."""
    from holdfast.runtime.keeping import policy as policies

    holdfast = controller()
    if size is not None:
        holdfast.keeping.quota = None if size in ("0", "none", "off") else policies.size(size)
    used = sum(row.bytes for row in holdfast.store.snapshots())
    limit = holdfast.keeping.quota
    if wants_json(json):
        output.emit({"quota": limit, "used": used})
    else:
        output.say(f"{output.size(used)} of {output.size(limit) if limit else 'no limit'}")


def autosnap(
    every: Annotated[
        float, typer.Option("--every", metavar="S", help="Seconds between two looks.", min=1)
    ] = 30,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    json: Json = False,
) -> None:
    """Watch the sessions whose policy says --idle, in the foreground, and capture them when it is time."""
    with controller() as holdfast:
        while True:
            for name in holdfast.keeping.capture_idle():
                if wants_json(json):
                    output.emit({"name": name})
                else:
                    output.say(name)
            if once:
                return
            time.sleep(every)


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    json: Json = False,
) -> None:
    """Remove what nothing needs: expired snapshots, leftovers of dead processes, old images."""
    found = controller().keeping.collect_garbage(dry_run=dry_run)
    if wants_json(json):
        output.emit([{"kind": g.kind, "name": g.name, "why": g.why, "bytes": g.bytes} for g in found])
        return
    for one in found:
        output.say(plain(f"{one.kind} {one.name} ({output.size(one.bytes)}): {one.why}"))
    verb = "would be removed" if dry_run else "removed"
    output.note(f"{len(found)} things {verb}, {output.size(sum(one.bytes for one in found))}")
