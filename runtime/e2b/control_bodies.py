"""Bodies of the control plane: requests, their unsupported fields, and sandboxes as answers. Pure.

Allowed destinations take precedence over denied ones. A request that a session cannot honor is refused: a
network is never wider or narrower than the client asked for. A page of
a list ends with a token, the time and the id of its last row: rows that come or go between two pages
neither hide nor repeat others.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar
from urllib.parse import parse_qsl, unquote

from pydantic import Field, StrictBool

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.connect_wire import NotOffered, WireBody
from holdfast.runtime.e2b.sandbox_access import SandboxTokens
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts, ended
from holdfast.runtime.egress import session_policy
from holdfast.runtime.lifecycle import chosen_image
from holdfast.runtime.sessions import network_exceptions
from holdfast.runtime.sessions.network_exceptions import Allowed
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.rows import SessionRow, SnapshotRow
from holdfast.snapshots.checkpointer.egress.netrules import Network

HOST = r"^([A-Za-z0-9._:\[\]-]|\$\{PORT\})+$"
_EVERYTHING = ("0.0.0.0/0", "::/0")
Places = Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=200)]


class NetworkBody(WireBody):
    """The network part of a request."""

    allow_out: Places | None = None
    deny_out: Places | None = None
    allow_public_traffic: StrictBool | None = None
    dns_servers: Any = None
    egress_proxy: Any = None
    mask_request_host: Annotated[str, Field(max_length=253, pattern=HOST)] | None = None
    https_ports: Any = None
    rules: Any = None


class NetworkUpdate(NetworkBody):
    """A change of the network, which replaces all earlier rules."""

    allow_internet_access: Annotated[StrictBool | None, Field(alias="allow_internet_access")] = None


@dataclass(frozen=True, slots=True)
class NetworkWish:
    """The network of a session; None if the client did not choose one.

    `allow` and `deny` replace all that clients gave the session before.
    """

    network: Literal["internet", "none", "domains"] | None = None
    domains: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @property
    def closed(self) -> NetworkWish:
        """The same for a session that keeps its interface: `none` becomes a denial of all addresses."""
        return NetworkWish("internet", deny=_EVERYTHING) if self.network == "none" else self

    def options(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options for a session with the options `kept`, whose exceptions with a port stay.

        This wire cannot express these: they come from the person who made the session on this machine.
        """
        said = {"domains": list(self.domains), "allow": list(self.allow), "deny": list(self.deny)}
        own = [text for text in kept.get("allow", ()) if Allowed.parse(text).port is not None]
        return said | {"allow": [*own, *self.allow]}


def network_wish(internet: bool | None, body: NetworkBody | None) -> NetworkWish:
    """Return the session network that a request asks for.

    Raises:
        NotOffered, InvalidArgument: a session cannot have that.
    """
    said = body or NetworkBody()
    _refuse_settings(said)
    denied = network_exceptions.denied_texts(map(_denied, said.deny_out or ()))
    closed = internet is False or any(place in _EVERYTHING for place in denied)
    places = {place: _network(place) for place in said.allow_out or ()}
    names = tuple(place for place, found in places.items() if found is None)
    allow = tuple(dict.fromkeys(_undenied(found) for found in places.values() if found is not None))
    _refuse_private(places)
    if not closed:
        if names and denied:
            raise NotOffered(
                f"cannot allow {plain(names[0], 60)} of denied networks: only a gateway distinguishes names",
                hint="deny 0.0.0.0/0, or allow addresses",
            )
        # A wish for its ports alone must not open what was closed in a snapshot.
        unsaid = internet is None and not said.allow_out and said.deny_out is None
        return NetworkWish() if unsaid else NetworkWish("internet", (), allow, denied)
    if names:
        domains = dict.fromkeys(str(session_policy.parse_domain(name)) for name in names)
        return NetworkWish("domains", tuple(domains), allow)
    return NetworkWish("internet", (), allow, _EVERYTHING) if allow else NetworkWish("none")


def _refuse_settings(said: NetworkBody) -> None:
    reasons = {
        "dns_servers": "its names are answered by the resolvers of this machine",
        "egress_proxy": "its packets leave from this machine",
        "https_ports": "requests to its ports are passed on without TLS",
        "rules": "this wire cannot insert secrets; `holdfast new --secret` can",
    }
    for name, why in reasons.items():
        if getattr(said, name):
            raise NotOffered(f"cannot set {name} of a sandbox's network: {why}")


def _refuse_private(places: Mapping[str, Network | None]) -> None:
    """Refuse destinations that are not on the internet: sandboxes share a machine that has neighbours."""
    for place, found in places.items():
        if found is not None and not found.is_global and str(found) not in _EVERYTHING:
            raise NotOffered(
                f"cannot allow {plain(place, 60)}: it is not on the internet",
                hint="make a session with `holdfast new --allow HOST:PORT`, and connect to it",
            )


def _undenied(network: Network) -> str:
    """Return an allowed network in the sessions' form."""
    return str(Allowed.parse(f"[{network}]" if network.version == 6 else str(network)))


def _network(place: str) -> Network | None:
    """Return a network, or None for a possible name of a host."""
    try:
        return network_exceptions.denied(place)
    except InvalidArgument:
        if not place.replace(".", "").replace("/", "").isdecimal():
            return None
        raise _unreadable(place) from None


def _denied(place: str) -> Network:
    if (found := _network(place)) is None:
        raise _unreadable(place)
    return found


def _unreadable(place: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot read '{plain(place, 60)}': it is neither an address nor a network",
        hint="for example 0.0.0.0/0",
    )


LONGEST_SECONDS = 10 * 366 * 86400
MOST_FORKS = 100
Text = Annotated[str, Field(max_length=65_536)]
Texts = Annotated[dict[Annotated[str, Field(max_length=256)], Text], Field(max_length=1000)]
Timeout = Annotated[int, Field(ge=0, le=LONGEST_SECONDS)]


class AutoResume(WireBody):
    """Whether a request resumes a sandbox that is paused."""

    enabled: bool = False


class NewSandbox(WireBody):
    """A sandbox to be made."""

    template_id: Annotated[str, Field(alias="templateID", max_length=200)]
    timeout: Timeout | None = None
    metadata: Texts | None = None
    env_vars: Texts | None = None
    auto_pause: bool = False
    auto_pause_memory: bool = True
    auto_resume: AutoResume | None = None
    # Some names of this wire are not in camel case.
    allow_internet_access: Annotated[StrictBool | None, Field(alias="allow_internet_access")] = None
    network: NetworkBody | None = None
    mcp: Any = None
    iam: Any = None
    volume_mounts: Any = None

    def check(self) -> None:
        """Refuse fields that sessions cannot honor.

        Raises:
            NotOffered, InvalidArgument: it has such a field.
        """
        if self.mcp:
            raise NotOffered(
                "cannot start MCP servers in a sandbox: its image lacks a gateway for them",
                hint="run them as processes of the sandbox",
            )
        if self.iam:
            raise NotOffered(
                "cannot give a sandbox an identity: this server does not have a provider of identities"
            )
        if self.volume_mounts:
            raise NotOffered(
                "cannot mount volumes: this server does not have any",
                hint="write files into the sandbox, or fork one that has them",
            )
        if self.wakes and not self.auto_pause:
            raise InvalidArgument(
                "cannot resume a sandbox automatically that is killed at its end",
                hint="set autoPause as well",
            )

    @property
    def wakes(self) -> bool:
        """Whether a request resumes it when it is paused."""
        return self.auto_resume is not None and self.auto_resume.enabled

    def facts(self) -> SandboxFacts:
        """Return the facts to keep with the session."""
        return SandboxFacts(
            template=self.template_id,
            metadata=self.metadata or {},
            env=self.env_vars or {},
            public_ports=self.network is not None and self.network.allow_public_traffic is True,
            request_host=None if self.network is None else self.network.mask_request_host,
        )

    def lifetime(self, default_seconds: float) -> Lifetime:
        """Return the lifetime; its clock does not run yet."""
        return Lifetime(
            life=float(default_seconds if self.timeout is None else self.timeout),
            then="suspend" if self.auto_pause else "remove",
            keeps_memory=self.auto_pause_memory,
            wakes=self.wakes,
        )


class ConnectBody(WireBody):
    """A client that connects."""

    timeout: Timeout = 300
    memory: bool = True


class TimeoutBody(WireBody):
    """A new end."""

    timeout: Timeout


class RefreshBody(WireBody):
    """A later end."""

    duration: Timeout = 300


class PauseBody(WireBody):
    """A pause."""

    memory: bool = True
    # A pause here fails if the guest does not answer, whether that is asked for or not.
    require_healthy_guest: bool = False


class SnapshotBody(WireBody):
    """A snapshot to be taken."""

    name: Annotated[str, Field(max_length=200)] | None = None
    memory: bool = True


class ForkBody(WireBody):
    """The copies to make. Without a timeout they live as long as their original."""

    timeout: Timeout | None = None
    count: Annotated[int, Field(ge=1, le=MOST_FORKS)] = 1


ENVD_VERSION = "0.6.4"
"""The features of this wire's processes and files that sandboxes have, by E2B's versions."""
CLIENT = "holdfast"
TEMPLATE_IMAGES = {
    "base": None,
    "code-interpreter-v1": chosen_image.DATA,
    "code-interpreter": chosen_image.DATA,
}
"""The images that templates of E2B stand for here; None for the session image."""
NO_END = "9999-01-01T00:00:00Z"
"""Clients want an end of every sandbox; this is the end of a sandbox without one."""


def sandbox_made(row: SessionRow, tokens: SandboxTokens, domain: str) -> dict[str, Any]:
    """Return the data that a client needs to reach a sandbox."""
    facts = SandboxFacts.of(row) or SandboxFacts()
    found = {
        "templateID": facts.template,
        "sandboxID": row.id,
        "clientID": CLIENT,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": tokens.access(row.id),
        "trafficAccessToken": tokens.traffic(row.id),
        "domain": domain,
    }
    return found | _alias(facts)


def sandbox_listed(row: SessionRow, disk: int) -> dict[str, Any]:
    """Return the list entry of a sandbox; `disk` is the size of the machine's, in bytes."""
    facts, ends_at = SandboxFacts.of(row) or SandboxFacts(), Lifetime.of(row.details).ends_at
    options = row.options
    found = {
        "templateID": facts.template,
        "sandboxID": row.id,
        "clientID": CLIENT,
        "envdVersion": ENVD_VERSION,
        "startedAt": written_time(row.created_at),
        "endAt": NO_END if ends_at is None else written_time(datetime.fromtimestamp(ends_at, UTC)),
        "cpuCount": processors(row),
        "memoryMB": int(options.get("memory") or 0) >> 20,
        "diskSizeMB": int(options.get("disk") or disk) >> 20,
        "metadata": facts.metadata,
        "state": "paused" if row.state == "suspended" else "running",
    }
    return found | _alias(facts)


def sandbox_detailed(row: SessionRow, tokens: SandboxTokens, domain: str, disk: int) -> dict[str, Any]:
    """Return everything of a sandbox."""
    facts, life = SandboxFacts.of(row) or SandboxFacts(), Lifetime.of(row.details)
    allowed, denied = _said_network(row.options)
    found = sandbox_made(row, tokens, domain) | sandbox_listed(row, disk)
    found |= {
        "allowInternetAccess": "0.0.0.0/0" not in denied,
        "lifecycle": {
            "autoResume": life.wakes and life != Lifetime(),
            "onTimeout": "pause" if life.then == "suspend" and life.life is not None else "kill",
        },
    }
    if allowed or (denied and row.options.get("network") != "none"):
        found["network"] = {"allowOut": allowed, "denyOut": denied} | _ports(facts)
    elif facts.public_ports or facts.request_host:
        found["network"] = _ports(facts)
    if row.state == "suspended":
        found["pauseMode"] = "filesystem" if life.files_only else "full"
    return found


def _said_network(options: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the allowed and the denied destinations of a session in the words of this wire."""
    undenied = [one.undenied for one in map(Allowed.parse, options.get("allow", ()))]
    allowed = [
        *options.get("domains", ()),
        *(network_exceptions.network_text(one) for one in undenied if one is not None),
    ]
    if options.get("network", "internet") in ("domains", "none"):
        return allowed, ["0.0.0.0/0"]
    denied = list(options.get("deny", ()))
    # A denial of everything is listed once, for both versions.
    return allowed, [place for place in denied if place != "::/0" or "0.0.0.0/0" not in denied]


def processors(row: SessionRow) -> int:
    """Return the number of processors of a sandbox; a fraction counts as one."""
    return max(1, round(float(row.options.get("cpus") or os.cpu_count() or 1)))


def disk_size(folder: str) -> int:
    """Return the bytes of the disk that a folder is on."""
    return shutil.disk_usage(folder).total


def written_time(moment: datetime) -> str:
    """Return a time in the clients' form."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ports(facts: SandboxFacts) -> dict[str, Any]:
    told: dict[str, Any] = {"allowPublicTraffic": facts.public_ports}
    return told | ({"maskRequestHost": facts.request_host} if facts.request_host else {})


def _alias(facts: SandboxFacts) -> dict[str, str]:
    return {} if re.fullmatch(ids.ID, facts.template) else {"alias": facts.template}


MOST_ROWS = 100
"""Rows of a page."""
NEXT_PAGE = "x-next-token"
STATES = {"running": "running", "paused": "suspended"}
Listed = TypeVar("Listed", SessionRow, SnapshotRow)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The filters of a list."""

    metadata: Mapping[str, str]
    states: frozenset[str]
    template: str | None = None
    started_after: datetime | None = None

    @classmethod
    def parse(
        cls, metadata: str | None, states: Sequence[str], template: str | None, started_after: str | None
    ) -> ListQuery:
        """Parse the query of an address.

        Raises:
            InvalidArgument: a part of it is malformed.
        """
        # Clients quote both, and then the whole of it again.
        pairs = parse_qsl(metadata or "", keep_blank_values=True)
        wanted = {unquote(key): unquote(value) for key, value in pairs}
        named = [name for each in states for name in each.split(",") if name] or list(STATES)
        for name in named:
            if name not in STATES:
                raise InvalidArgument(
                    f"cannot list sandboxes in state '{plain(name, 40)}': the states are running and paused"
                )
        return cls(wanted, frozenset(STATES[name] for name in named), template, _moment(started_after))

    def fits(self, row: SessionRow) -> bool:
        """Return whether a session matches. One that no client made is not a sandbox."""
        facts = SandboxFacts.of(row)
        if facts is None or ended(row) or row.state not in self.states:
            return False
        if self.template is not None and facts.template != self.template:
            return False
        if self.started_after is not None and row.created_at <= self.started_after:
            return False
        return all(facts.metadata.get(key) == value for key, value in self.metadata.items())


@dataclass(frozen=True, slots=True)
class Page(Generic[Listed]):
    """One page, and the token for the next one; empty at the end."""

    rows: Sequence[Listed]
    next_token: str


def page(rows: Sequence[Listed], limit: int | None, token: str | None, *, oldest_first: bool) -> Page[Listed]:
    """Return a page of rows.

    Raises:
        InvalidArgument: the limit or the token is not valid.
    """
    size = MOST_ROWS if limit is None else limit
    if not 1 <= size <= MOST_ROWS:
        raise InvalidArgument(f"cannot list {size} in one page: the limit is from 1 to {MOST_ROWS}")
    ordered = sorted(rows, key=_key, reverse=not oldest_first)
    if token:
        last = _read_token(token)
        ordered = [row for row in ordered if (_key(row) > last if oldest_first else _key(row) < last)]
    found = ordered[:size]
    return Page(found, _token(found[-1]) if len(ordered) > size else "")


def _key(row: SessionRow | SnapshotRow) -> tuple[str, str]:
    return row.created_at.astimezone(UTC).isoformat(timespec="microseconds"), row.id


def _token(row: SessionRow | SnapshotRow) -> str:
    return base64.urlsafe_b64encode("|".join(_key(row)).encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[str, str]:
    try:
        moment, bar, row_id = (
            base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().partition("|")
        )
    except (binascii.Error, ValueError):
        bar = ""
    if not bar:
        raise InvalidArgument("cannot continue the list: the token does not belong to a page")
    return moment, row_id


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"cannot read '{plain(text, 60)}': it is not a time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
