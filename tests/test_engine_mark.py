"""Tests that drive a real engine are marked: `pytest -m "not engine"` needs none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_every_test_against_the_engine_is_marked() -> None:
    """Also the long tests and the virtual machine's."""
    tests = [*(ROOT / "tests" / "integration").rglob("test_*.py")]
    pytest_here = Path(sys.executable).with_name("pytest")
    command: list[str | Path] = [pytest_here, "--collect-only", "-q", "-m", "not engine", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
