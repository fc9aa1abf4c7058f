"""LangChain's standard tests of sandboxes for Deep Agents, unedited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from holdfast import Holdfast
from holdfast.runtime.adapters.deepagents_sandbox import HoldfastSandbox


class TestHoldfastSandbox(SandboxIntegrationTests):  # type: ignore[misc]
    @pytest.fixture(scope="class")
    def sandbox(self, url: str, name: str) -> Iterator[HoldfastSandbox]:
        with Holdfast(url) as controller:
            yield HoldfastSandbox(controller.session(name))
