"""Verbs: access new, ls, rm, people, forget; audit show, verify."""

from __future__ import annotations

import time

from holdfast.base.home import Home
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.access.audit_trail import AuditTrail

SINCE = option("--since", metavar="DURATION", help="Only rows of the last 1h, 7d or the like.")


@examples(
    "access new ci --role member --for 30d",
    "access new ada --person --role viewer --session work",
    "access new deploy --scope files:write --scope sessions:read",
    "access new evals --e2b --role maintainer",
)
def new(
    name: str = argument("NAME", help="Name of the key's user, for the journal: `ci`, `ada`."),
    role: str | None = option("--role", help="viewer, member, maintainer or admin; member by default."),
    scope: list[str] | None = option(
        "--scope", help="A scope, such as files:read or snapshots:*. Repeatable."
    ),
    session: str | None = option("--session", metavar="SESSION", help="Only for this session."),
    lasting: str | None = option("--for", metavar="DURATION", help="How long, such as 8h or 30d."),
    person: bool = option("--person", help="A person uses it, not an agent."),
    e2b: bool = option("--e2b", help="In the form that clients of E2B accept, for E2B_API_KEY."),
    json: bool = JSON,
) -> None:
    """Make a key that lets one agent or person use `holdfast serve`. The key is shown once."""
    from holdfast.base.quantities import parse_duration
    from holdfast.runtime.access import permissions
    from holdfast.runtime.access.access_keys import AccessKeys

    seconds = None if lasting is None else parse_duration(lasting)
    if lasting is not None and not seconds:
        raise InvalidArgument(f"cannot make a key for '{lasting[:40]}'", hint="for example 8h or 30d")
    given = [*([role] if role else []), *(scope or [])] or ["member"]
    if session is not None:
        session = controller().session(session).id
    made, text = AccessKeys(Home.default().create().root).create(
        name, given, kind="person" if person else "agent", session=session or "", seconds=seconds, of_e2b=e2b
    )
    if wants_json(json):
        printing.emit({**made.as_dict(), "key": text})
        return
    printing.say(text)
    where = f" in session {session}" if session else ""
    variable = "E2B_API_KEY" if e2b else "HOLDFAST_TOKEN"
    printing.note(
        f"the key lets {made.actor} use `holdfast serve`{where}, given as {variable}: "
        f"{permissions.shown(made.scopes)}; it is not shown a second time"
    )


@examples("access ls")
def list_(json: bool = JSON) -> None:
    """List keys: their rights, their validity, and their last use."""
    from datetime import UTC, datetime

    from holdfast.runtime.access import permissions
    from holdfast.runtime.access.access_keys import LINK, AccessKeys

    keys = [each for each in AccessKeys(Home.default().root).list() if each.kind != LINK]
    now = time.time()
    if wants_json(json):
        printing.emit([{**each.as_dict(), "state": each.state(now)} for each in keys])
        return
    if not keys:
        printing.note("there are no keys; `holdfast access new NAME` makes one")
        return

    def moment(at: float) -> str:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M") if at else "never"

    printing.table(
        ["NAME", "KEY", "ALLOWS", "SESSION", "STATE", "EXPIRES", "USED"],
        [
            [
                each.actor,
                each.shown,
                permissions.shown(each.scopes),
                each.session or "all",
                each.state(now),
                moment(each.expires_at),
                moment(each.used_at),
            ]
            for each in keys
        ],
    )


@examples("access rm ci")
def remove(name: str = argument("NAME", help="Name or id of a key."), json: bool = JSON) -> None:
    """Revoke a key: it grants nothing any more, and its open connections are cut within a second."""
    from holdfast.runtime.access.access_keys import AccessKeys

    revoked = AccessKeys(Home.default().root).revoke(name)
    if wants_json(json):
        printing.emit({"id": revoked.id, "name": revoked.name})
    else:
        printing.note(f"revoked the key of {revoked.actor}")


@examples("access people")
def people(json: bool = JSON) -> None:
    """List people who have signed in: by which issuer, with which role, and when."""
    from dataclasses import asdict

    from holdfast.runtime.access.name_owners import NameOwners

    found = NameOwners(Home.default().root).list()
    if wants_json(json):
        printing.emit([asdict(each) for each in found])
        return
    if not found:
        printing.note("there are not any people yet; `holdfast serve --oidc FILE` lets people do that")
        return

    def moment(at: float) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))

    printing.table(
        ["NAME", "ROLE", "TEAM", "ISSUER", "SUBJECT", "FIRST", "LAST"],
        [
            [
                f"person:{each.name}",
                each.role,
                each.team,
                each.issuer,
                each.subject,
                moment(each.first_at),
                moment(each.seen_at),
            ]
            for each in found
        ],
    )


@examples("access forget ada")
def forget(name: str = argument("NAME", help="The name of a person."), json: bool = JSON) -> None:
    """Free the name of a person for the next who signs in under it, and revoke their keys."""
    from contextlib import suppress

    from holdfast.runtime.access.access_keys import AccessKeys
    from holdfast.runtime.access.name_owners import NameOwners

    root = Home.default().root
    NameOwners(root).forget(name)
    with suppress(InvalidArgument):  # they have none that is valid
        AccessKeys(root).revoke(f"person:{name}")
    if wants_json(json):
        printing.emit({"name": name})
    else:
        printing.note(f"freed the name {name}; the keys of person:{name} open nothing any more")


@examples(
    "audit show --since 1h", "audit show --actor agent:ci --session work", "audit show --ocsf --since 1d"
)
def show(
    since: str | None = SINCE,
    actor: str | None = option("--actor", help="Only requests of this actor, such as agent:ci."),
    session: str | None = option(
        "--session", metavar="SESSION", help="Only for this session, as requests name it."
    ),
    last: int = option("--last", default=100, least=1, metavar="N", help="The last N requests."),
    ocsf: bool = option("--ocsf", help="As events of OCSF, one JSON object a line, of all rows."),
    json: bool = JSON,
) -> None:
    """Show requests to `holdfast serve --audit`: their callers, subjects and statuses."""
    from holdfast.base.quantities import parse_duration

    age = None if since is None else parse_duration(since)
    if since is not None and age is None:
        raise InvalidArgument(f"cannot use the time '{since[:40]}'", hint="for example 30m, 1h or 7d")
    begin = 0.0 if age is None else time.time() - age
    if ocsf:
        from json import dumps

        from holdfast.runtime.access import ocsf_events

        found = _trail().numbered(since=begin, actor=actor or "", session=session or "")
        for seq, row in found:
            printing.say(dumps(ocsf_events.event(seq, row), ensure_ascii=True))
        return
    rows = _trail().rows(since=begin, actor=actor or "", session=session or "", most=last)
    if wants_json(json):
        printing.emit([each.as_dict() for each in rows])
        return
    printing.table(
        ["TIME", "ACTOR", "KEY", "REQUEST", "SESSION", "STATUS", "SECONDS"],
        [
            [
                time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(each.at)),
                each.actor,
                each.key,
                f"{each.method} {each.path}",
                each.session,
                str(each.status),
                f"{each.seconds:.3f}",
            ]
            for each in rows
        ],
    )


@examples("audit verify", "audit verify --head 1204:9f86d0…")
def verify(
    head: str = option(
        "--head", default="", metavar="N:HASH", help="A head that was printed earlier, to compare with."
    ),
    json: bool = JSON,
) -> None:
    """Check the chain of the trail, and its heads, which the home's key has signed; print the last head."""
    from holdfast.snapshots.bundle.keys import Keys

    keys = Keys(Home.default())
    found = _trail().verify(head, lambda public: keys.trusted(public) is not None)
    if wants_json(json):
        told = {"rows": found.rows, "heads": found.heads, "head": found.head, "faults": list(found.faults)}
        printing.emit(told)
    else:
        printing.say(found.head)
    if found.faults:
        raise HoldfastError(
            f"cannot trust the audit trail: {'; '.join(found.faults[:3])}",
            hint="compare it with a copy; rows before the first fault are as they were written",
        )


def _trail() -> AuditTrail:
    from holdfast.runtime.access.audit_trail import AuditTrail

    return AuditTrail(Home.default().root)
