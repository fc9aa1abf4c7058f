"""A few failed tests are tried once more on their own; a run cut short, or a broken change, is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import second_try

ROOT = Path(__file__).parent.parent
CONFTEST = """
import pytest
from tests.second_try import FailedTests

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if config.pluginmanager.has_plugin("terminalreporter"):
        config.pluginmanager.register(FailedTests(config))
"""
# Fails the first time, and passes the second time.
UNSTABLE = """
import pathlib

def test_unstable():
    seen = pathlib.Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
BROKEN = "def test_broken():\n    assert False\n"
FINE = "def test_fine():\n    pass\n"
MANY = "import pytest\n\n@pytest.mark.parametrize('n', range(6))\ndef test_many(n):\n    assert False\n"
DIES = "import os\n\ndef test_dies():\n    os._exit(1)\n"
CUT_SHORT = ["--maxfail=1"]


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ([UNSTABLE, FINE], [], 0),
        ([UNSTABLE, FINE], ["-n2"], 0),
        ([UNSTABLE, BROKEN], [], 1),
        ([FINE, DIES], ["-n2", "--max-worker-restart=1"], 1),
        ([MANY], [], 1),
        ([UNSTABLE, BROKEN, FINE], CUT_SHORT, 1),
        (["def broken(:\n"], [], 1),
        ([FINE], [], 1),
    ],
    ids=[
        "unstable",
        "two processes",
        "broken",
        "its process dies",
        "many",
        "cut short",
        "no test",
        "no failure",
    ],
)
def test_a_second_try_passes_only_tests_that_pass_alone(
    tmp_path: Path, files: list[str], options: list[str], expected: int
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(text)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    environ.pop("PYTEST_XDIST_WORKER", None)
    first = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert (first.returncode == 0) == (files == [FINE]), first.stdout

    named = tmp_path / "named"
    again = subprocess.run(
        [sys.executable, second_try.__file__, named],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
    )

    assert again.returncode == expected, again.stdout
    assert ("test_unstable" in named.read_text() if named.exists() else False) == (expected == 0)
