"""The network that a client asks for, as options of a session.  Pure.

The wire allows and denies single destinations; a session reaches the internet, a list of domains, or nothing.
Anything else is refused: a network is never wider or narrower than the client asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.e2b_errors import NotOffered
from holdfast.runtime.e2b.wire_bodies import WireBody

HOST = r"^([A-Za-z0-9._:\[\]-]|\$\{PORT\})+$"
EVERYTHING = ("0.0.0.0/0", "::/0")
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
    """The network of a session; None if the client did not choose one."""

    network: Literal["internet", "none", "domains"] | None = None
    domains: tuple[str, ...] = ()


def wish(internet: bool | None, body: NetworkBody | None) -> NetworkWish:
    """Return the session network that a request asks for.

    Raises:
        NotOffered, InvalidArgument: a session cannot have that.
    """
    said = body or NetworkBody()
    _refuse(said)
    closed = internet is False or any(place in EVERYTHING for place in said.deny_out or ())
    for place in said.deny_out or ():
        if place not in EVERYTHING:
            _network(place)
            raise NotOffered(
                f"cannot deny {plain(place, 60)} alone: a sandbox reaches the internet, domains, or nothing",
                hint="deny 0.0.0.0/0, and allow domains",
            )
    if not closed:
        _refuse_private(said.allow_out or ())
        # A wish for its ports alone must not open what was closed in a snapshot.
        unsaid = internet is None and not said.allow_out and said.deny_out is None
        return NetworkWish(None if unsaid else "internet")
    if not said.allow_out:
        return NetworkWish("none")
    for place in said.allow_out:
        if _network(place, name=True) is not None:
            raise NotOffered(
                f"cannot allow {plain(place, 60)} on all ports: a closed sandbox reaches domains",
                hint="allow names of hosts",
            )
    return NetworkWish("domains", tuple(dict.fromkeys(said.allow_out)))


def _refuse(said: NetworkBody) -> None:
    reasons = {
        "dns_servers": "its names are answered by the resolvers of this machine",
        "egress_proxy": "its packets leave from this machine",
        "https_ports": "requests to its ports are passed on without TLS",
        "rules": "this wire cannot insert secrets; `holdfast new --secret` can",
    }
    for name, why in reasons.items():
        if getattr(said, name):
            raise NotOffered(f"cannot set {name} of a sandbox's network: {why}")


def _refuse_private(places: Iterable[str]) -> None:
    """Refuse destinations that are not on the internet; the others are allowed already."""
    for place in places:
        found = _network(place, name=True)
        if found is not None and not found.is_global and place not in EVERYTHING:
            raise NotOffered(
                f"cannot allow {plain(place, 60)}: it is not on the internet",
                hint="make a session with `holdfast new --allow HOST:PORT`, and connect to it",
            )


def _network(place: str, *, name: bool = False) -> Any:
    try:
        return ip_network(place, strict=False)
    except ValueError:
        if name and not place.replace(".", "").replace("/", "").isdecimal():
            return None
        raise InvalidArgument(
            f"cannot read '{plain(place, 60)}': it is neither an address nor a network",
            hint="for example 0.0.0.0/0",
        ) from None
