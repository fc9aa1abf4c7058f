"""Requirements of SWE-ReX's execution tests in addition to their file; run by pytest of its environment.

Variables name the session that they use, which sees the folder of their files under the same path.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from swerex.runtime.abstract import BashAction, CloseBashSessionRequest, Command, CreateBashSessionRequest
from swerex.runtime.remote import RemoteRuntime

SECONDS = 30.0


class _Action(BashAction):
    timeout: float | None = SECONDS


class _Command(Command):
    timeout: float | None = SECONDS


@pytest.fixture
def remote_runtime() -> RemoteRuntime:
    return RemoteRuntime(
        host=f"{os.environ['HOLDFAST_URL']}/swerex/{os.environ['HOLDFAST_SESSION']}",
        auth_token=os.environ["HOLDFAST_TOKEN"],
    )


@pytest_asyncio.fixture
async def runtime_with_default_session(remote_runtime: RemoteRuntime) -> AsyncIterator[RemoteRuntime]:
    await remote_runtime.create_session(CreateBashSessionRequest())
    yield remote_runtime
    await remote_runtime.close_session(CloseBashSessionRequest())
