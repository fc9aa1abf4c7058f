"""The fake engine does what the real one does."""

from __future__ import annotations

import pytest
from tests.engine.contract import EngineContract
from tests.engine.fake_engine import FakeEngine


class TestFakeEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> FakeEngine:
        return FakeEngine()

    @pytest.fixture
    def image(self, engine: FakeEngine) -> str:
        engine.images.add("sha256:1", "holdfast/session:1")
        return "sha256:1"
