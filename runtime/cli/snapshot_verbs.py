"""Verbs that take snapshots and start from them: snapshot, template, restore, fork, suspend, resume, rmi."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import (
    ALLOW,
    AS,
    DENY,
    EITHER_REF,
    JSON,
    NAME_OPTION,
    NETWORK,
    REASON,
    REQUIRE,
    RUN_COMMANDS,
    SESSION_REF,
    SNAPSHOT_REF,
    SNAPSHOT_REFS,
)
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import REQUIRED, argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.snapshots.survivability import Resource, Survivability

BLOCKED = 3
"""The exit code when something blocks."""
_LONGEST = 48
# Shown for a process that has nothing else.
_ALONE = {
    "process": "itself",
    "stopped": "itself, stopped",
    "other_user": "itself, with ids of several users",
    "zombie": "itself, ended",
}
# Kinds whose title is not a countable noun.
_NOUNS = {
    "waiting": "event",
    "loopback": "inner connection",
    "connectionless": "unconnected socket",
    "unix": "unix socket",
    "netlink": "netlink socket",
    "proc_file": "file of /proc",
}


@examples("snapshot work before", "snapshot work --check    # what would be lost?")
def snapshot(
    session: str = SESSION_REF,
    name: str | None = argument("LABEL", help="A name for the snapshot.", default=None),
    label: str | None = option("--label", "-l", help="The same."),
    kind: str = option("--kind", default="live", help="`live` or `filesystem`."),
    reason: str | None = REASON,
    check: bool = option(
        "--check", help="Only list what survives a capture; exit code 3 if something blocks it."
    ),
    all_: bool = option("--all", help="With --check: also list the supervisor's own resources."),
    force_drop: list[str] | None = option(
        "--force-drop",
        metavar="pid:N|fd:N/M",
        help=(
            "Leave out a blocker: end this process and its descendants first, or leave this "
            "descriptor out of copies."
        ),
    ),
    json: bool = JSON,
) -> int:
    """Capture a session at one instant. It keeps running."""
    if name is not None and label is not None:
        raise InvalidArgument("cannot name the snapshot twice", hint=f"`holdfast snapshot {session} {name}`")
    if check:
        found = controller().session(session)
        return show_survivors(found, everything=all_, as_json=wants_json(json))
    if kind not in ("live", "filesystem"):
        from holdfast.base.text import plain

        raise InvalidArgument(
            f"cannot take a snapshot of kind '{plain(kind, 40)}'", hint="live or filesystem"
        )
    dropped = force_drop or []
    for blocker in dropped:
        if blocker.startswith("pid:"):
            printing.note(f"{blocker} and its descendants are ended in the session if they block")
    label = label if name is None else name
    taken = (
        controller()
        .session(session)
        .snapshot(label, "live" if kind == "live" else "filesystem", reason=reason, force_drop=dropped)
    )
    if wants_json(json):
        printing.emit(taken.as_dict())
    else:
        printing.say(taken.name)
    return 0


@examples("template work --name ready")
def template(
    session: str = SESSION_REF,
    name: str = option("--name", default=REQUIRED, help="Name of the template."),
    replace: bool = option("--replace", help="Replace the template of that name."),
    reason: str | None = REASON,
    json: bool = JSON,
) -> None:
    """Capture a session as a template: `new --template NAME` starts from its present state."""
    made = controller().session(session).template(name, replace=replace, reason=reason)
    if wants_json(json):
        printing.emit(made.as_dict())
    else:
        printing.say(made.name)


def _snapshot(ref: str) -> Snapshot:
    """Return a snapshot; explain if a session has that name."""
    holdfast = controller()
    try:
        return holdfast.snapshot(ref)
    except SnapshotNotFound as error:
        if any(ref in (each.name, each.id) for each in holdfast.sessions()):
            hint = f"it is a session: `holdfast fork {ref}` copies it, `rewind` takes it back to a snapshot"
            raise SnapshotNotFound(str(error), hint=hint) from None
        raise


@examples("restore before", "restore before --name again")
def restore(
    snapshot: str = SNAPSHOT_REF,
    name: str | None = NAME_OPTION,
    as_: str | None = AS,
    require: str | None = REQUIRE,
    run_commands: bool = RUN_COMMANDS,
    network: str | None = NETWORK,
    allow: list[str] | None = ALLOW,
    deny: list[str] | None = DENY,
    keep_id: bool = option(
        "--keep-id", help=("Restore the session itself, under its id and name, not a copy.")
    ),
    json: bool = JSON,
) -> None:
    """Start a new session from a snapshot. Exit code 3 if that is not possible on this machine."""
    from holdfast.runtime.cli import elsewhere_verbs

    elsewhere_verbs.check_commands(as_, run=run_commands)
    found, as_json = _snapshot(snapshot), wants_json(json)
    made = elsewhere_verbs.restore(
        found,
        name,
        as_,
        require,
        network=network,
        allow=allow or (),
        deny=deny or (),
        keep_id=keep_id,
        as_json=as_json,
    )
    again = elsewhere_verbs.run_again(found, made, as_json=as_json) if run_commands else []
    if as_json:
        ran = {"commands": [one.as_dict() for one in again]} if run_commands else {}
        printing.emit({**made.as_dict(), **ran})
    else:
        printing.say(made.name)


@examples("fork work -n 3           # its present state", "fork before --name try -n 3")
def fork(
    source: str = EITHER_REF,
    name: str | None = option("--name", help="Name; with -n: NAME-1, NAME-2, …"),
    count: int = option("-n", "--count", default=1, help="How many copies."),
    network: str | None = NETWORK,
    allow: list[str] | None = ALLOW,
    deny: list[str] | None = DENY,
    eager: bool = option(
        "--eager", help=("Load all memory now; by default, large heaps load when they are used.")
    ),
    json: bool = JSON,
) -> None:
    """Start copies of a session's present state, or of a snapshot."""
    made = controller().fork(
        source, count, name, network=network, allow=allow or (), deny=deny or (), eager=eager
    )
    if wants_json(json):
        printing.emit([session.as_dict() for session in made])
    else:
        for session in made:
            printing.say(session.name)


@examples("suspend work")
def suspend(session: str = SESSION_REF, json: bool = JSON) -> None:
    """Capture a session and free its memory until it is resumed."""
    found = controller().session(session).suspend()
    if wants_json(json):
        printing.emit(found.as_dict())


@examples("resume work")
def resume(
    session: str = SESSION_REF,
    here: bool = option("--here", help="Even if a move was cut short and it is possibly running there."),
    json: bool = JSON,
) -> None:
    """Continue a suspended session, or start a dead one again on its files."""
    found = controller().session(session).resume(here=here)
    if wants_json(json):
        printing.emit(found.as_dict())


@examples("rmi before")
def rmi(snapshots: list[str] = SNAPSHOT_REFS, json: bool = JSON) -> None:
    """Delete snapshots."""
    with controller() as holdfast:
        found = holdfast.remove_snapshots(*snapshots)
    if wants_json(json):
        printing.emit([{"id": item.id, "name": item.name} for item in found])


def show_survivors(session: Session, *, everything: bool, as_json: bool) -> int:
    """Check, show the report, and return the exit code: 0, or BLOCKED if a capture would be refused."""
    report = session.check()
    if as_json:
        printing.emit(report.as_dict(own=everything))
    else:
        _show(report, everything=everything)
    return BLOCKED if report.blocks else 0


def _show(report: Survivability, *, everything: bool) -> None:
    wanted = [one for one in report.resources if everything or not one.own]
    for title, verdict in (("blocks", "blocks"), ("reset in copies", "reset")):
        rows = [one for one in wanted if one.verdict == verdict]
        if rows:
            printing.say(f"{title}:")
            printing.table(("PID", "COMMAND", "FD", "WHAT", "KIND"), map(_urgent, rows))
            for line in dict.fromkeys(map(_why, rows)):
                printing.say(line)
    survivors = [one for one in wanted if one.verdict == "survives"]
    if survivors:
        printing.say("survives:")
        printing.table(("PID", "COMMAND", "WHAT"), _survivors(survivors))
    for line in _summary(report):
        printing.say(line)


def _urgent(one: Resource) -> Sequence[str]:
    fd = "" if one.fd is None else str(one.fd)
    return str(one.pid), _short(one.command), fd, one.what, _words(one.kind)


def _why(one: Resource) -> str:
    advice = f": {one.advice}" if one.advice else ""
    return f"  {_words(one.kind)}: it {one.reason}{advice}"


def _survivors(found: list[Resource]) -> Iterable[Sequence[str]]:
    """Yield one row for each process, with the number of resources of each kind."""
    kinds: dict[tuple[int, str], dict[str, int]] = {}
    for one in found:
        counted = kinds.setdefault((one.pid, one.command), {})
        counted[one.kind] = counted.get(one.kind, 0) + 1
    for (pid, command), counted in kinds.items():
        counts = [_counted(kind, count) for kind, count in counted.items() if kind not in _ALONE]
        yield str(pid), _short(command), ", ".join(counts) or _ALONE[next(iter(counted))]


def _words(kind: str) -> str:
    return _NOUNS.get(kind, kind.replace("_", " "))


def _counted(kind: str, count: int) -> str:
    first, space, rest = _words(kind).partition(" of ")
    ending = "" if count == 1 else "es" if first.endswith("ch") else "ies" if first.endswith("y") else "s"
    stem = first[:-1] if ending == "ies" else first
    return f"{count} {stem}{ending}{space}{rest}"


def _short(command: str) -> str:
    return command if len(command) <= _LONGEST else command[: _LONGEST - 1] + "…"


def _summary(report: Survivability) -> Iterable[str]:
    blocks, resets = len(report.blocks), len([one for one in report.resets if not one.own])
    verdict = (
        f"{blocks} in the way of a live snapshot" if blocks else "nothing is in the way of a live snapshot"
    )
    yield (
        f"{verdict}; {resets} reset in copies; examined {report.processes} processes and "
        f"{report.descriptors} descriptors in {report.seconds * 1000:.0f} ms"
    )
    yield (
        f"to be written: up to {printing.size(report.memory_bytes)} of memory and "
        f"{printing.size(report.file_bytes)} of files without a name or in memory; "
        f"{printing.size(report.free_bytes)} are free"
    )
    yield (
        f"in addition, {report.changed_files} files changed since the session's image: "
        f"{printing.size(report.changed_bytes)}, without holes {printing.size(report.changed_length)}"
    )
    if report.fault:
        yield f"these cannot be copied: {report.fault}"
    if not report.whole or report.left_out:
        yield "there is more than is listed here"
    if blocks:
        named = " ".join(f"--force-drop {one.name}" for one in report.blocks[:3])
        yield f"`{named}` takes it without {'it' if blocks == 1 else 'them'}"
