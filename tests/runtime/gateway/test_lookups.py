"""Look-ups of names: turns of a session, what is not an answer, and files that change."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from ipaddress import ip_address
from typing import Any

import pytest

from holdfast.runtime.gateway.lookups import AT_ONCE, Lookups, NoAnswer


class Resolver:
    """Answers what it was told to, and lets everything else wait until it is released."""

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
    """The rest of its look-ups wait, in order; another session's are made at once."""

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


def test_no_address_is_an_answer_and_silence_is_none() -> None:
    """An absent name has no address; a resolver that fails, is silent or too busy says nothing."""

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
