"""The destinations of a session at the gateway, by the name and the addresses of a host."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Coroutine
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from holdfast.runtime.egress import host_network
from holdfast.runtime.egress.host_network import Wishes
from holdfast.runtime.gateway import destinations
from holdfast.runtime.gateway.destinations import AT_ONCE, Lookups, NoAnswer
from holdfast.runtime.gateway.names import Address, Domain
from holdfast.runtime.gateway.session_rules import NetworkOpening, Secret, SecretHost, SessionRules, load

RULES = host_network.rules(
    "internet", host_network.HostNetwork((ip_address("198.51.100.7"),)), host_network.Bridge()
)
NARROW = SessionRules(
    "s",
    only_domains=True,
    domains=(Domain.parse("api.example.com"),),
    secrets=(Secret("T", "p", (SecretHost.parse("keyed.example.com:8443"),), "value-of-it"),),
    refused=RULES.refused,
    opened=(NetworkOpening(ip_network("10.0.0.0/30"), 5432),),
    opened_names=(("db.internal", 5432),),
    names=(("listed.internal", ip_address("10.0.0.3")),),
)
PUBLIC = ip_address("203.0.113.9")


def reached(policy: SessionRules, host: str, port: int, *addresses: str) -> list[Address]:
    return destinations.reachable(
        policy, host, port, [ip_address(one) for one in addresses or ("203.0.113.9",)]
    )


def test_a_narrow_session_reaches_its_domains_and_the_hosts_of_its_secrets() -> None:
    """By these names alone, on these ports."""
    assert reached(NARROW, "api.example.com", 443) == [PUBLIC]
    assert reached(NARROW, "keyed.example.com", 8443) == [PUBLIC]
    for host, port in (("keyed.example.com", 443), ("example.com", 443), ("203.0.113.9", 443)):
        assert reached(NARROW, host, port) == []


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "198.51.100.7",
        "::1",
        "fd00::1",
        "64:ff9b::a00:1",
        "0.0.0.0",
    ],
)
def test_a_name_that_leads_to_a_closed_address_is_not_followed(address: str) -> None:
    """The owner of the name decides where it leads; only its public addresses are used."""
    assert reached(NARROW, "api.example.com", 443, address) == []
    assert reached(NARROW, "api.example.com", 443, address, "203.0.113.9") == [PUBLIC]


def test_an_opening_is_reached_by_address_and_by_any_name() -> None:
    """On its port; the machine's own loopback never is, even if it is within the opening."""
    assert reached(NARROW, "db.internal", 5432, "10.0.0.1") == [ip_address("10.0.0.1")]
    assert reached(NARROW, "10.0.0.2", 5432, "10.0.0.2") == [ip_address("10.0.0.2")]
    assert reached(NARROW, "10.0.0.2", 5433, "10.0.0.2") == []
    wide = SessionRules(
        "s", opened=(NetworkOpening(ip_network("0.0.0.0/0"), None), NetworkOpening(ip_network("::/0"), None))
    )
    for address in ("127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "::1", "fe80::1"):
        assert reached(wide, "db.internal", 80, address) == []


def test_a_denied_address_is_not_reached_by_any_name() -> None:
    """Nor by its forms of IPv6; its allowed part is, by a session of domains as well, if it is public."""
    denied = Wishes.of(["203.0.113.9"], ["203.0.113.0/24"])
    rules = host_network.rules("internet", host_network.HostNetwork(), host_network.Bridge(), denied)
    more: dict[str, Any] = {"refused": rules.refused, "denied": rules.denied, "allowed": rules.allowed}
    free, narrow = SessionRules("s", **more), replace(NARROW, **more)
    closed = ("203.0.113.8", "64:ff9b::cb00:7108", "2002:cb00:7108::1", "::ffff:10.0.0.1", "10.0.0.1")
    for address in closed:
        for policy in (free, narrow):
            assert reached(policy, "api.example.com", 443, address) == []
            assert reached(policy, address, 443, address) == []
    for policy in (free, narrow):
        assert reached(policy, "api.example.com", 443, *closed, "203.0.113.9") == [PUBLIC]
        assert reached(policy, "203.0.113.9", 22) == [PUBLIC]
    assert [len(reached(one, "any.example", 443, "9.9.9.9")) for one in (free, narrow)] == [1, 0]
    assert "shows its denied addresses" in destinations.refusal(narrow, "api.example.com", 443)
    wide = replace(free, allowed=(ip_network("0.0.0.0/0"),))
    assert not any(reached(wide, one, 80, one) for one in ("10.0.0.1", "127.0.0.1", "169.254.169.254"))


@pytest.mark.parametrize(
    ("host", "port", "asked"),
    [("api.example.com", 443, True), ("db.internal", 5432, True), ("db.internal", 443, False),
     ("listed.internal", 1, True), ("10.9.9.9", 5432, True), ("told-to.evil.example", 5432, False)],
)  # fmt: skip
def test_unreachable_names_are_not_resolved(host: str, port: int, asked: bool) -> None:
    """The query alone would leak whatever the name says, even where its port is open for another."""
    assert destinations.worth_asking(NARROW, host, port) is asked


def test_a_refusal_names_the_option_that_allows_it() -> None:
    """A domain by its name, an address by its port."""
    said = [
        destinations.refusal(NARROW, host, port)
        for host, port in (
            ("a.org", 443),
            ("a.org", 22),
            ("10.9.9.9", 80),
            ("api.example.com", 443),
            ("127.0.0.1", 1),
        )
    ]

    assert [text.partition("; ")[2].rpartition("` ")[0] for text in said] == [
        "`holdfast network s --domain a.org",
        "`holdfast network s --domain a.org:22",
        "`holdfast network s --allow 10.9.9.9:80",
        "`holdfast network s --allow api.example.com:443",
        "",
    ]
    assert all("\n" not in text for text in said)


def test_a_policy_survives_its_file() -> None:
    """And its value never appears in its text form."""
    denied = replace(NARROW, denied=(ip_network("1.1.1.1"),), allowed=(ip_network("::/0"),))
    assert [load(each.dump()) for each in (NARROW, denied)] == [NARROW, denied]
    earlier = {
        name: value for name, value in json.loads(denied.dump()).items() if name not in ("denied", "allowed")
    }
    assert load(json.dumps(earlier)) == NARROW
    assert "value-of-it" not in repr(NARROW)


class Resolver:
    """Gives the answers it was given, and lets everything else wait until it is released."""

    def __init__(self, **known: list[str] | OSError) -> None:
        self.known, self.asked = known, list[str]()
        self.now = self.most = 0
        self.released = asyncio.Event()

    async def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        found = self.known.get(host)
        if found is None:
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await self.released.wait()
            finally:
                self.now -= 1
            return ["203.0.113.1"]
        if isinstance(found, OSError):
            raise found
        return found


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_session_has_some_turns_and_others_have_theirs() -> None:
    """The rest of its look-ups wait, in order; a second session's are made immediately."""

    async def test() -> None:
        resolver = Resolver(quick=["203.0.113.9", "2001:db8::9", "203.0.113.9"])
        lookups = Lookups(resolver)
        waiting = [asyncio.create_task(lookups.addresses("one", f"slow{count}")) for count in range(30)]
        await settled()
        assert resolver.asked == [f"slow{count}" for count in range(AT_ONCE)]

        found = await lookups.addresses("other", "quick")
        assert found == [ip_address("203.0.113.9"), ip_address("2001:db8::9")]

        resolver.released.set()
        assert await asyncio.gather(*waiting) == [[ip_address("203.0.113.1")]] * 30
        assert resolver.asked[AT_ONCE:] == ["quick", *(f"slow{count}" for count in range(AT_ONCE, 30))]
        assert resolver.most <= AT_ONCE
        assert lookups._turns == {}

    run(test())


def test_an_answer_without_addresses_counts_and_silence_does_not() -> None:
    """An absent name has no address; a resolver that fails, is silent or too busy gives no information."""

    async def test() -> None:
        resolver = Resolver(
            absent=socket.gaierror(socket.EAI_NONAME, "NXDOMAIN"),
            empty=socket.gaierror(socket.EAI_NODATA, "no records"),
            late=socket.gaierror(socket.EAI_AGAIN, "request timed out"),
            failed=socket.gaierror(socket.EAI_FAIL, "SERVFAIL"),
            unreachable=OSError(101, "network is unreachable"),
            strange=["not an address"],
        )
        lookups = Lookups(resolver, seconds=0.05)
        for name in ("absent", "empty", "strange"):
            assert await lookups.addresses("one", name) == []
        for name in ("late", "failed", "unreachable", "silent"):
            with pytest.raises(NoAnswer):
                await lookups.addresses("one", name)
        many = [lookups.addresses("one", f"slow{count}") for count in range(20)]
        told = await asyncio.gather(*many, return_exceptions=True)
        assert {type(one) for one in told} == {NoAnswer}
        assert resolver.now == 0
        assert lookups._turns == {}

    run(test())
