"""Verbs of the taking and keeping of snapshots: pin, unpin, policy, quota, autosnap, gc, serve-captures."""

from __future__ import annotations

import sys
import time

from holdfast.base.quantities import gib_text
from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF, SNAPSHOT_REFS
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.store import policy as policies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from holdfast.runtime.api.capture_requests import Served
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.store.quotas import Quota, QuotaUsage


@examples("pin before")
def pin(snapshots: list[str] = SNAPSHOT_REFS, json: bool = JSON) -> None:
    """Keep snapshots until they are deleted by hand, whatever policy and quota say."""
    _pin(snapshots, pinned=True, json=json)


@examples("unpin before")
def unpin(snapshots: list[str] = SNAPSHOT_REFS, json: bool = JSON) -> None:
    """Let policy and quota delete snapshots again."""
    _pin(snapshots, pinned=False, json=json)


def _pin(refs: list[str], *, pinned: bool, json: bool) -> None:
    with controller() as holdfast:
        found = list({item.id: item for item in map(holdfast.snapshot, refs)}.values())
        for item in found:
            item.pin(pinned=pinned)
    if wants_json(json):
        printing.emit([item.as_dict() for item in found])


@examples("policy work --every 20 --keep 10", "policy work --off")
def policy(
    session: str = SESSION_REF,
    every: int | None = option(metavar="N", help="Capture after every N commands and cells (0: never)."),
    before_risky: bool | None = option(
        "--before-risky/--no-before-risky", help="Capture before rm -r, package installs and the like."
    ),
    risky: list[str] | None = option(
        metavar="REGEX", help="Also treat commands matching this as risky. Repeatable."
    ),
    on_failure: bool | None = option("--on-failure/--no-on-failure", help="Capture after a command fails."),
    idle: str | None = option(
        metavar="TIME", help="Capture after this long without activity, such as 10m (0: never)."
    ),
    kind: str | None = option(help="`live` or `filesystem`."),
    keep: int | None = option(metavar="N", help="Keep the last N automatic snapshots."),
    keep_for: str | None = option(metavar="TIME", help="Keep automatic snapshots for this long, such as 7d."),
    hourly: int | None = option(metavar="N", help="Keep one per hour for the last N hours."),
    daily: int | None = option(metavar="N", help="Keep one per day for the last N days."),
    quota: str | None = option(
        metavar="SIZE", help="Most room for this session's snapshots, such as 5g (0: no limit)."
    ),
    durable: str | None = option(
        metavar="TIME", help="In a cluster: most work that the loss of a machine costs, such as 60s."
    ),
    off: bool = option("--off", help="Clear the policy first."),
    json: bool = JSON,
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
    for name, text in (
        ("idle", idle),
        ("keep_for", keep_for),
        ("quota", quota),
        ("durable", durable),
    ):
        if text is not None:
            changes[name] = None if text in ("0", "off", "none") else text
    now = found.policy(**changes)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, "policy": now.as_dict()})
    else:
        for line in policy.format_policy(now):
            printing.say(plain(line))


def _limit(name: str, metavar: str, help_: str) -> Any:
    return option(f"--{name}", metavar=f"{metavar}|none", help=help_)


@examples("quota", "quota 20g", "quota set --running 5 --memory 16g --idle 15m", "quota set --running none")
def quota(
    action: str | None = argument(
        "[set|show|SIZE|none]", default=None, help="`set` with options; SIZE is short for `set --disk SIZE`."
    ),
    running: str | None = _limit("running", "N", "Sessions that run; sleeping ones are not counted."),
    memory: str | None = _limit("memory", "SIZE", "Memory of running sessions, by their own limits."),
    cpus: str | None = _limit("cpus", "N", "Processors of running sessions, by their own limits."),
    sessions: str | None = _limit("sessions", "N", "Sessions in all."),
    disk: str | None = _limit("disk", "SIZE", "Space of all snapshots."),
    forks: str | None = _limit("forks", "N", "Copies in one call."),
    life: str | None = _limit("life", "DURATION", "How long a session runs until it is suspended."),
    idle: str | None = _limit("idle", "DURATION", "Time without use after which a session sleeps."),
    commands: str | None = _limit("commands", "N", "Commands begun in a second."),
    user: str | None = option(
        "--user", metavar="ACTOR|each", help="The quota of one user: agent:ci, person:ada."
    ),
    json: bool = JSON,
) -> None:
    """Show or set limits of this home: sessions, their use of the machine, snapshots. The oldest automatic
    snapshots are deleted first.
    """
    given = {
        "running": running, "memory": memory, "cpus": cpus, "sessions": sessions,
        "forks": forks, "life": life, "idle": idle, "commands": commands,
    }  # fmt: skip
    changes = {name: text for name, text in given.items() if text is not None}
    size = disk if action in (None, "set", "show") else action
    if action not in ("set",) and (changes or disk is not None):
        raise InvalidArgument("cannot set the quota without `set`", hint="`holdfast quota set --running 5`")
    if action == "set" and not changes and disk is None:
        raise InvalidArgument(
            "cannot set the quota: the limit is missing", hint="`holdfast quota set --running 5`"
        )
    holdfast = controller()
    if user is not None:
        given["disk"] = size
        _quota_of_user(holdfast, user, {name: text for name, text in given.items() if text is not None})
        _show_user(holdfast, user, as_json=wants_json(json))
        return
    if size is not None:
        holdfast.keeping.quota = None if size in ("0", "none", "off") else policies.size(size)
    if changes:
        from holdfast.runtime.store import quotas

        try:
            before = holdfast.keeping.limits
        except StoreError:  # a file that cannot be read is rewritten
            before = quotas.Quota()
        holdfast.keeping.limits = before.with_texts(changes)
    _show_quota(holdfast, as_json=wants_json(json))


def _quota_of_user(holdfast: Holdfast, user: str, changes: Mapping[str, str]) -> None:
    from holdfast.runtime.store import quotas

    if changes:
        before = holdfast.keeping.user_limits.get(user, quotas.Quota())
        holdfast.keeping.limit_user(user, before.with_texts(changes))


def _show_user(holdfast: Holdfast, user: str, *, as_json: bool) -> None:
    from holdfast.runtime.store import quotas

    limits = holdfast.keeping.user_limits.get(user, quotas.Quota())
    usage = None if user == quotas.EACH else holdfast.keeping.usage_of(user)
    if as_json:
        told = {"user": user, "limits": limits.as_dict()}
        printing.emit(told | ({"usage": usage.as_dict()} if usage else {}))
        return
    if limits == quotas.Quota():
        printing.note(f"{plain(user, 80)} does not have limits of their own")
    for line in _limit_lines(limits, usage):
        printing.say(line)


def _show_quota(holdfast: Holdfast, *, as_json: bool) -> None:
    used = sum(row.bytes for row in holdfast.store.snapshots())
    limit, limits, usage = holdfast.keeping.quota, holdfast.keeping.limits, holdfast.keeping.usage
    users = holdfast.keeping.user_limits
    if as_json:
        of_users = {name: each.as_dict() for name, each in users.items()}
        told = {"quota": limit, "used": used, "limits": limits.as_dict(), "usage": usage.as_dict()}
        printing.emit(told | ({"users": of_users} if of_users else {}))
        return
    printing.say(f"{printing.size(used)} of {printing.size(limit) if limit else 'no limit'}")
    for line in _limit_lines(limits, usage):
        printing.say(line)
    from holdfast.runtime.store.quotas import EACH

    for user, of_user in users.items():
        used_now = None if user == EACH else holdfast.keeping.usage_of(user)
        for line in _limit_lines(of_user, used_now):
            printing.say(f"{plain(user, 80)}: {line}")


def _limit_lines(limits: Quota, usage: QuotaUsage | None) -> Iterator[str]:
    """Yield a line for each limit, with the present use if that is given."""
    span = policies.span

    def now(found: Callable[[QuotaUsage], str]) -> str:
        return "" if usage is None else f"{found(usage)} of "

    for name, value, used in (
        ("running sessions", limits.running, now(lambda of: f"{of.running}")),
        (
            "memory of running sessions",
            limits.memory and gib_text(limits.memory),
            now(lambda of: gib_text(of.memory)),
        ),
        ("their processors", limits.cpus and f"{limits.cpus:g}", now(lambda of: f"{of.cpus:g}")),
        ("sessions in all", limits.sessions, now(lambda of: f"{of.sessions}")),
        ("space of snapshots", limits.disk and printing.size(limits.disk), ""),
        ("copies in one call", limits.forks, ""),
        ("longest life", limits.life and span(limits.life), ""),
        ("idle time before sleep", limits.idle and span(limits.idle), ""),
        ("commands a second", limits.commands and f"{limits.commands:g}", ""),
    ):
        if value is not None:
            yield f"{name}: {used}{value}"


@examples("autosnap")
def autosnap(
    every: float = option("--every", default=30, metavar="S", help="Seconds between checks.", least=1),
    once: bool = option("--once", help="Check once and exit."),
    json: bool = JSON,
) -> None:
    """Watch sessions in the foreground: end those whose life is over, put unused ones to sleep, and capture
    those whose policy has --idle.
    """
    with controller() as holdfast:
        while True:
            done = [(name, "captured") for name in holdfast.keeping.capture_idle()]
            for name, done_to in [*done, *holdfast.keeping.carry_out_lifetimes()]:
                if wants_json(json):
                    printing.emit({"name": name, "what": done_to})
                else:
                    printing.say(name if done_to == "captured" else f"{name} {done_to}")
            if once:
                return
            time.sleep(every)


@examples("gc --dry-run", "gc")
def gc(
    dry_run: bool = option("--dry-run", help="Only list the items to delete."),
    json: bool = JSON,
) -> None:
    """Delete unneeded things: expired snapshots, leftovers of failed operations, old images."""
    found = controller().keeping.collect_garbage(dry_run=dry_run)
    if wants_json(json):
        printing.emit([as_table(one, "remove") for one in found])
        return
    for one in found:
        printing.say(plain(f"{one.kind} {one.name} ({printing.size(one.bytes)}): {one.why}"))
    verb = "would be removed" if dry_run else "removed"
    printing.note(f"{len(found)} things {verb}, {printing.size(sum(one.bytes for one in found))}")


@examples("serve-captures work")
def serve_captures(
    session: str = SESSION_REF,
    limit: int | None = option(least=1, help="Stop after this many snapshots (default 100)."),
    json: bool = JSON,
) -> None:
    """Take snapshots when programs in a session request them (holdfast-capture), until Ctrl-C."""
    as_json = wants_json(json)

    def report(served: Served) -> None:
        if as_json:
            printing.emit(_capture_row(served))
        else:
            printing.say(_capture_line(served))
        sys.stdout.flush()

    with (
        controller() as holdfast,
        holdfast.session(session).serve_captures(on_captured=report, limit=limit) as serving,
    ):
        printing.note("programs in the session can be captured; Ctrl-C ends it")
        serving.over.wait()
    if serving.error is not None:
        raise serving.error


def _capture_row(served: Served) -> dict[str, Any]:
    return {
        "snapshot": served.snapshot.id if served.snapshot else None,
        "reference": served.reference or None,
        "pid": served.asked.pid,
        "command": served.asked.command,
        "reason": served.asked.reason,
        "failure": served.asked.failure.as_details(),
        "error": {"code": served.error.code, "message": str(served.error)} if served.error else None,
    }


def _capture_line(served: Served) -> str:
    who = f"{served.asked.command} (pid {served.asked.pid})"
    if served.snapshot is None:
        return plain(f"refused {who}: {served.error}", 1000)
    return plain(f"{served.snapshot.name}  {who}: {served.asked.failure.title}", 1000)
