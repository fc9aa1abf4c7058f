"""Runs a file of tests in the environment of an agent framework, away from the project's own fixtures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.integration.doors.conftest import SUITES

CHECKS = Path(__file__).parent / "frameworks"
SECONDS = 400


def passed(which: str, file: str, environment: dict[str, str], place: Path) -> int:
    """Run tests in the environment of a framework; return the number of passed tests, or fail if any
    failed."""
    checks = Path(shutil.copytree(CHECKS, place / "checks")) / file  # away from the project's own fixtures
    python = SUITES / which / "bin" / "python"
    assert python.exists(), "the frameworks are not installed: `make test-doors` does it"
    words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    words += ["-c", os.devnull, "--rootdir", str(checks.parent), str(checks)]
    known = {name: text for name, text in environment.items() if not name.startswith("PYTEST_")}
    known["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        words, env=known, cwd=checks.parent, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    count = re.search(r"(\d+) passed", done.stdout)
    assert count, done.stdout
    return int(count[1])
