"""Verbs of sessions as a whole: new, ls, rm, lifetime, network."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import (
    ALLOW,
    DENY,
    DOMAIN,
    IDLE,
    JSON,
    LIFE,
    NAME_OPTION,
    SESSION_REF,
    SESSION_REFS,
    THEN,
    session_options,
)
from holdfast.runtime.cli.caller import context_of, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.egress.attempt_log import Refusal
    from holdfast.runtime.egress.network_changes import Reach

_KINDS = {
    "internet": "the internet, but not the host or its private networks",
    "open": "everything but other sessions, link-local addresses and cloud metadata",
    "none": "nothing: it has no network",
    "domains": "its domains, over HTTP and HTTPS through the gateway, and nothing else",
}
SHOWN = 20
"""Most refused destinations shown to a person."""


@examples(
    "new work",
    "new train --image data --memory 4g    # Python with pandas and Matplotlib",
    "new app --copy .                      # with a copy of this folder in its workspace",
)
def new(
    given: str | None = argument("NAME", default=None, help="Name of the new session."),
    name: str | None = NAME_OPTION,
    image: str | None = option(help="Any Linux image, `data`, or ./FILE; by default Holdfast's own."),
    build: str | None = option(metavar="FOLDER", help="Build the image, of a folder with a Dockerfile."),
    file: str | None = option(help="With --build: the Dockerfile."),
    build_arg: list[str] | None = option(
        metavar="KEY=VALUE", help="With --build: the value of an ARG. Repeatable."
    ),
    target: str | None = option(help="With --build: the stage to build."),
    build_network: str | None = option(
        metavar="internet|none|engine", help="Network of a build's steps; by default a session's."
    ),
    allow_remote_sources: bool = option(
        "--allow-remote-sources", help="Let the engine fetch URLs and frontends that a Dockerfile names."
    ),
    pull: str | None = option(help="When to ask the image's registry: `missing`, `always` or `never`."),
    devcontainer: str | None = option(
        metavar="FOLDER", help="Follow the folder's devcontainer.json, and copy the folder in."
    ),
    copy: str | None = option(metavar="FOLDER", help="Copy this folder into the session's directory."),
    entrypoint: bool = option("--entrypoint", help="Run the image's ENTRYPOINT, as a job of that name."),
    options: dict[str, Any] = session_options("new"),
    policy: str | None = option(
        metavar="every=20,before-risky,...", help="Same settings as `holdfast policy`."
    ),
    template: str | None = option(help="Start from this template, with its programs running."),
    warm: bool = option("--warm", help="Start with the kernel ready, from a template made at the first use."),
    label: list[str] | None = option(
        "--label", metavar="KEY=VALUE", help="A label to find it by, as in `ls --label`. Repeatable."
    ),
    life: str | None = LIFE,
    then: str | None = THEN,
    idle: str | None = IDLE,
    json: bool = JSON,
) -> None:
    """Start a session."""
    if given is not None and name is not None:
        raise InvalidArgument("cannot name the session twice", hint=f"`holdfast new {given}`")
    from functools import partial

    from holdfast.runtime.cli import file_verbs, machine_verbs
    from holdfast.runtime.store.policy import parse_text

    holdfast = controller()
    if copy is not None:
        context_of(holdfast, "new --copy")
        file_verbs.check_project(copy)
    chosen = machine_verbs.choose(
        holdfast,
        image=image,
        folder=build,
        file=file,
        arguments=build_arg or (),
        target=target,
        policy=pull,
        devcontainer=devcontainer,
        entrypoint=entrypoint,
        network=build_network,
        allow=options.get("allow", ()),
        deny=options.get("deny", ()),
        remote=allow_remote_sources,
    )
    new = partial(holdfast.new)
    if devcontainer is not None:
        rights: Any = {"build_network": build_network, "remote_sources": allow_remote_sources}
        new = partial(holdfast.new, devcontainer=devcontainer, **rights)
    new = partial(new, entrypoint=True) if entrypoint else new
    made = new(
        name if given is None else given,
        image=chosen,
        policy=None if policy is None else parse_text(policy),
        template=template,
        warm=warm,
        labels=label,
        life=life,
        then=then,
        idle=idle,
        **options,
    )
    if copy is not None:
        file_verbs.copy_project(made, copy)
    if wants_json(json):
        printing.emit(made.as_dict())
    else:
        printing.say(made.name)


@examples("ls", "ls --label team=web", "ls --all", "ls --names")
def ls(
    label: list[str] | None = option(
        "--label", metavar="KEY[=VALUE]", help="Only sessions with this label. Repeatable."
    ),
    everything: bool = option("--all", help="Also list the sessions that wait in the pool."),
    names: bool = option("-q", "--names", help="Print the names only, one on each line."),
    json: bool = JSON,
) -> int:
    """List sessions."""
    found = controller().sessions(labels=label)
    if names and not wants_json(json):
        for session in found:
            printing.say(session.name)
        return 0
    waiting = controller().pool.waiting() if everything else []
    if wants_json(json):
        listed = [{"name": None, "state": "waiting", **one.as_dict()} for one in waiting]
        printing.emit([session.as_dict() for session in found] + listed)
        return 0
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    told = [session.as_dict() for session in found]
    shown = [each["lifetime"] or {} for each in told]
    rows = [
        [
            s.name,
            s.id,
            "asleep" if one.get("asleep") else s.state,
            printing.ago(s.created_at, now),
            printing.origin(s.image, each["parent_snapshot_id"]),
        ]
        for s, one, each in zip(found, shown, told, strict=True)
    ]
    unnamed = [
        ["-", one.id, "waiting", printing.ago(one.made_at, now), printing.image(one.image)] for one in waiting
    ]
    columns = ["NAME", "ID", "STATE", "CREATED", "FROM"]
    if any(session.labels for session in found):
        columns.append("LABELS")
        for row, session in zip(rows, found, strict=True):
            row.append(", ".join(f"{key}={value}" for key, value in session.labels.items()))
    if any(one.get("ends_at") for one in shown):
        columns.append("ENDS")
        for row, one in zip(rows, shown, strict=True):
            row.append(_ends(one, now.timestamp()))
    if any(each.get("cluster") for each in told):
        columns.append("DURABLE")
        for row, each in zip(rows, told, strict=True):
            row.append(_durable(each.get("cluster"), now.timestamp()))
    blank = [""] * (len(columns) - 5)
    printing.table(columns, rows + [[*each, *blank] for each in unnamed])
    return 0


def _durable(mark: dict[str, Any] | None, now: float) -> str:
    """Return how old the copy of a session is from which another node would continue it, for people."""
    if mark is None:
        return "here only"
    return f"{_rough(max(0, int(now - mark['at'])))} ago" if mark["at"] else "not yet"


def _ends(shown: dict[str, Any], now: float) -> str:
    """Return when a session ends, and how, for people; empty if it never does."""
    if shown.get("ends_at") is None:
        return ""
    left = int(shown["ends_at"] - now)
    return f"{shown['then']} {f'in {_rough(left)}' if left > 0 else 'now'}"


def _rough(seconds: int) -> str:
    """Return a duration in its largest unit."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


@examples("lifetime work", "lifetime work --life 2h --then remove --idle 30m", "lifetime work --life none")
def lifetime(
    session: str = SESSION_REF,
    life: str | None = LIFE,
    then: str | None = THEN,
    idle: str | None = IDLE,
    json: bool = JSON,
) -> None:
    """Show when a session ends and when it sleeps; with options, change that first. `none` removes a
    limit."""
    given = {"life": life, "then": then, "idle": idle}
    nothing = ("none", "off", "0")
    choices: Any = {name: None if text in nothing else text for name, text in given.items() if text}
    with controller() as holdfast:
        found = holdfast.session(session)
        now = found.lifetime(**choices)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, "lifetime": now.shown(found.state)})
        return
    import time

    from holdfast.runtime.store.lifetime import lines

    for line in lines(now, found.state, time.time()):
        printing.say(line)


@examples("rm work", "rm try-1 try-2 try-3")
def rm(sessions: list[str] = SESSION_REFS, json: bool = JSON) -> None:
    """End sessions and delete them. Their snapshots stay."""
    with controller() as holdfast:
        found = list({session.id: session for session in map(holdfast.session, sessions)}.values())
        for session in found:
            session.remove()
    if wants_json(json):
        printing.emit([{"id": session.id, "name": session.name} for session in found])


@examples("network work", "network work --network none", "network work --allow 10.0.0.5:5432")
def network(
    session: str = SESSION_REF,
    allow: list[str] | None = ALLOW,
    deny: list[str] | None = DENY,
    disallow: list[str] | None = option(
        "--disallow", metavar="HOST:PORT", help="Revoke this exception. Repeatable."
    ),
    no_deny: list[str] | None = option(
        "--no-deny", metavar="ADDRESS|NETWORK", help="Lift this denial. Repeatable."
    ),
    domain: list[str] | None = DOMAIN,
    no_domain: list[str] | None = option(
        "--no-domain", metavar="NAME[:PORT]", help="Revoke this domain. Repeatable."
    ),
    kind: str | None = option("--network", help="`internet` or `open`."),
    json: bool = JSON,
) -> None:
    """Show the network rules of a session and its refusals; with options, change the rules first."""
    with controller() as holdfast:
        found = holdfast.session(session)
        if allow or disallow or deny or no_deny or domain or no_domain or kind:
            found.change_network(
                kind,
                allow=allow or (),
                disallow=disallow or (),
                deny=deny or (),
                no_deny=no_deny or (),
                domains=domain or (),
                no_domains=no_domain or (),
            )
        reached = found.network()
    if wants_json(json):
        printing.emit({"session": found.name, **reached.as_dict()})
        return
    for line in network_lines(reached, datetime.now(UTC)):
        printing.say(line)


def network_lines(reached: Reach, now: datetime) -> list[str]:
    """Return the text shown to a person. Pure."""
    found = [f"reaches   {_KINDS[reached.network]}"]
    secrets = [f"{name} for {', '.join(hosts)}" for name, hosts in reached.secrets]
    for what, items in (
        ("domains", reached.domains),
        ("secrets", secrets),
        ("denied", reached.deny),
        ("allowed", reached.allow),
        ("home", reached.home_allow),
        ("names by", reached.resolvers),
    ):
        if items:
            found.append(f"{what:<9} {', '.join(items)}")
    found += [f"refused   {_refused(one, now)}" for one in reached.refused[:SHOWN]]
    if (more := len(reached.refused) - SHOWN) > 0:
        found.append(f"          and {more} more destinations; --json lists them")
    if reached.refused_more:
        found.append("          there may be more: at most this many are recorded per hour")
    return found


def _refused(one: Refusal, now: datetime) -> str:
    unit = "request" if one.protocol == "http" else "packet"
    packets = f"{one.packets} {unit}{'s' if one.packets != 1 else ''}"
    ago = printing.ago(datetime.fromtimestamp(one.last, UTC), now)
    return f"{one.protocol} {one.place}, {packets}, last {ago}"
