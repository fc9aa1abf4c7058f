"""Suites that others wrote, against what programs and agents reach. `setup/doors` installs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOKEN = "0123456789abcdef0123"
SUITES = ROOT / ".doors"
SESSIONS = [pytest.param("fresh", marks=pytest.mark.brief), "restored"]
"""The two kinds of sessions in which a suite is run; a fresh one if there is little time."""


@pytest.fixture(scope="session")
def node() -> Path:
    found = SUITES / "bin" / "node"
    assert found.exists(), "the suites are not installed: `make test-doors` does it"
    return found


@contextmanager
def tokenless(*words: str | Path) -> Iterator[str]:
    """Yield the address of a server that is called without a token: the suites can send none."""
    command = [sys.executable, str(Path(__file__).parent / "tokenless.py"), *map(str, words)]
    environment = {**os.environ, "HOLDFAST_MCP_TOKEN": TOKEN}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Return the address of the server of agents."""
    with tokenless(tmp_path / "home") as address:
        yield address
