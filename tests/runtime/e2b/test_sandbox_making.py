"""Requests with one key share one creation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.e2b.control_bodies import NewSandbox
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.e2b.sandbox_making import OnceMade, RequestsDiffer
from holdfast.runtime.store.rows import SessionRow

PLAIN = NewSandbox.model_validate({"templateID": "base"})
OTHER = NewSandbox.model_validate({"templateID": "base", "metadata": {"a": "b"}})


class Maker:
    """Makes rows when it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.facts: list[SandboxFacts] = []

    async def __call__(self, facts: SandboxFacts) -> SessionRow:
        self.facts.append(facts)
        number = len(self.facts)
        await self.let.wait()
        return SessionRow(f"{number:012x}", "name", "running", "image", datetime.now(UTC))


async def asked(once: OnceMade, maker: Any, key: str | None, body: NewSandbox = PLAIN) -> SessionRow:
    return await once.made(key, body, SandboxFacts(), maker)


@pytest.mark.asyncio
async def test_keyed_requests_share_one_sandbox_and_others_get_one_each() -> None:
    once, maker = OnceMade(), Maker()
    calls = [asyncio.create_task(asked(once, maker, key)) for key in ("k", "k", None, None)]
    await asyncio.sleep(0)
    calls[0].cancel()  # the client that was first leaves
    maker.let.set()
    first, second, third, fourth = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert len(maker.facts) == 3
    assert len({each.id for each in (second, third, fourth) if isinstance(each, SessionRow)}) == 3
    assert [each.key is None for each in maker.facts].count(False) == 1


@pytest.mark.asyncio
async def test_a_key_of_another_request_is_refused() -> None:
    once, maker = OnceMade(), Maker()
    call = asyncio.create_task(asked(once, maker, "k"))
    await asyncio.sleep(0)
    with pytest.raises(RequestsDiffer):
        await asked(once, maker, "k", OTHER)
    maker.let.set()
    await call


@pytest.mark.asyncio
async def test_after_a_failure_the_key_can_be_used_again() -> None:
    async def fails(_: SandboxFacts) -> SessionRow:
        raise StoreError("cannot store")

    once, maker = OnceMade(), Maker()
    maker.let.set()
    with pytest.raises(StoreError):
        await asked(once, fails, "k")
    assert (await asked(once, maker, "k")).id


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["", "x" * 201])
async def test_invalid_keys_are_refused(key: str) -> None:
    with pytest.raises(InvalidArgument):
        await asked(OnceMade(), Maker(), key)
