"""Verb: network."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import ALLOW, DOMAIN, JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import examples, option

if TYPE_CHECKING:
    from holdfast.runtime.egress.attempt_log import Refusal
    from holdfast.runtime.egress.network_changes import Reach

_KINDS = {
    "internet": "the internet, and nothing of the host or around it",
    "open": "everything but other sessions, link-local addresses and cloud metadata",
    "none": "nothing: it has no network",
    "domains": "its domains, over HTTP and HTTPS through the gateway, and nothing else",
}
SHOWN = 20
"""Most refused destinations shown to a person."""


@examples("network work", "network work --network none", "network work --allow 10.0.0.5:5432")
def network(
    session: str = SESSION_REF,
    allow: list[str] | None = ALLOW,
    disallow: list[str] | None = option(
        "--disallow", metavar="HOST:PORT", help="Revoke this exception. Repeatable."
    ),
    domain: list[str] | None = DOMAIN,
    no_domain: list[str] | None = option(
        "--no-domain", metavar="NAME[:PORT]", help="Revoke this domain. Repeatable."
    ),
    kind: str | None = option("--network", help="`internet` or `open`."),
    json: bool = JSON,
) -> None:
    """Show what a session can reach and what it was refused; with options, change it first."""
    with controller() as holdfast:
        found = holdfast.session(session)
        if allow or disallow or domain or no_domain or kind:
            found.change_network(
                kind,
                allow=allow or (),
                disallow=disallow or (),
                domains=domain or (),
                no_domains=no_domain or (),
            )
        reached = found.network()
    if wants_json(json):
        printing.emit({"session": found.name, **reached.as_dict()})
        return
    for line in lines(reached, datetime.now(UTC)):
        printing.say(line)


def lines(reached: Reach, now: datetime) -> list[str]:
    """Return the text shown to a person. Pure."""
    found = [f"reaches   {_KINDS[reached.network]}"]
    secrets = [f"{name} for {', '.join(hosts)}" for name, hosts in reached.secrets]
    for what, items in (
        ("domains", reached.domains),
        ("secrets", secrets),
        ("allowed", reached.allow),
        ("home", reached.home_allow),
        ("names by", reached.resolvers),
    ):
        if items:
            found.append(f"{what:<9} {', '.join(items)}")
    found += [f"refused   {_refused(one, now)}" for one in reached.refused[:SHOWN]]
    if (more := len(reached.refused) - SHOWN) > 0:
        found.append(f"          and {more} more destinations: --json")
    if reached.refused_more:
        found.append("          more can have been refused: at most this many are recorded in an hour")
    return found


def _refused(one: Refusal, now: datetime) -> str:
    unit = "request" if one.protocol == "http" else "packet"
    packets = f"{one.packets} {unit}{'s' if one.packets != 1 else ''}"
    ago = printing.ago(datetime.fromtimestamp(one.last, UTC), now)
    return f"{one.protocol} {one.place}, {packets}, last {ago}"
