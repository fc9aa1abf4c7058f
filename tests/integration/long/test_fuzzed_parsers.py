"""Parsers of outside input read very many altered inputs, different ones in each run.

HOLDFAST_FUZZ_SEED repeats a run. With `atheris` installed, inputs are also made by the code that they reach.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.parsers.gateway_trials import altered
from tests.parsers.test_parsers import PARSERS

from holdfast.runtime.api.controller import Holdfast

SEED = os.environ.get("HOLDFAST_FUZZ_SEED") or str(random.SystemRandom().getrandbits(32))
ROUNDS = 20_000
GUIDED_SECONDS = 60
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("name", PARSERS)
def test_altered_inputs(name: str) -> None:
    """They are read, or refused as callers expect, and so are inputs of the greatest length."""
    print(f"HOLDFAST_FUZZ_SEED={SEED}")  # noqa: T201 - to repeat it
    dice = random.Random(f"{SEED} {name}")
    PARSERS[name].try_altered(dice, ROUNDS)
    PARSERS[name].try_long(dice, PARSERS[name].words)


def test_altered_requests_and_answers_of_the_gateway(hf: Holdfast) -> None:
    """Hosts find the requests that were judged, and no other; sessions get no value of a secret."""
    print(f"HOLDFAST_FUZZ_SEED={SEED}")  # noqa: T201 - to repeat it
    assert "all was read or refused" in altered(hf, SEED, ROUNDS)


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("name", PARSERS)
def test_inputs_that_reach_more(name: str, tmp_path: Path) -> None:
    """An input that reaches code which none before it did is altered in turn."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.parsers.guided",
            name,
            str(tmp_path),
            f"-max_total_time={GUIDED_SECONDS}",
        ],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:].decode("utf-8", "replace")
