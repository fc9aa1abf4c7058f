"""Inspect's conformance checks of sandboxes, unedited, and the life of a sample."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from holdfast import AsyncHoldfast
from holdfast.errors import SessionNotFound
from holdfast.runtime.adapters.inspect_sandbox import HoldfastConfig, HoldfastSandboxEnvironment


@pytest_asyncio.fixture
async def sandbox_env(url: str, name: str) -> AsyncIterator[SandboxEnvironment]:
    async with AsyncHoldfast(url) as controller:
        yield await HoldfastSandboxEnvironment.of(controller, await controller.session(name))


async def test_a_sample_begins_where_a_snapshot_was_taken(url: str, name: str) -> None:
    assert registry_find_sandboxenv("holdfast") is HoldfastSandboxEnvironment
    async with AsyncHoldfast(url) as controller:
        session = await controller.session(name)
        await session.exec("cd /tmp; begun=here")
        taken = await session.snapshot()
        config = HoldfastSandboxEnvironment.config_deserialize({"template": taken.id})
        assert config == HoldfastConfig(template=taken.id)
        made = await HoldfastSandboxEnvironment.sample_init("task", config, {})
        sandbox = made["default"].as_type(HoldfastSandboxEnvironment)
        assert (await sandbox.session.exec("echo $begun")).text == "here\n"
        assert (await sandbox.exec(["pwd"])).stdout == "/tmp\n"
        assert sandbox.session.name in (await sandbox.connection()).command
        await HoldfastSandboxEnvironment.sample_cleanup("task", config, made, False)
        try:
            await controller.session(sandbox.session.id)
        except SessionNotFound:
            pass
        else:
            raise AssertionError("the session of the sample is still there")
        await session.exec("cd /workspace")
        await taken.remove()
