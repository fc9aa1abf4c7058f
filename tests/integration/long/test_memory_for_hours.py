"""The model of memory that comes on demand, for hours; `HOLDFAST_TEST_MODEL_SECONDS` says for how long."""

from __future__ import annotations

import os
import time

import pytest
from tests.integration.test_memory_model import explore

from holdfast.runtime.api.controller import Holdfast

SECONDS = float(os.environ.get("HOLDFAST_TEST_MODEL_SECONDS", str(2 * 3600)))
SEED = int(os.environ.get("HOLDFAST_TEST_MODEL_SEED", "0")) or time.time_ns()


@pytest.mark.timeout(SECONDS + 3600)
def test_every_page_is_as_in_the_model_for_hours(hf: Holdfast) -> None:
    """Each round draws other operations, instants and kinds of copy."""
    assert explore(hf, SECONDS, SEED) >= 2
