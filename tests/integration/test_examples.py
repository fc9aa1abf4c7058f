"""The programs in `examples/` print what they show, and leave no session behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.conftest import Cli

from holdfast.runtime.api.controller import Holdfast

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "agent_loop": "$ rm names.txt  # a mistake\ntaken back\n$ wc -l < names.txt; echo $STAGE\n2\ndev\n",
    "fan_out": "first: off by 1.288\nbest: mean\n",
    "notebook_pictures": "cell 2: cell-2.svg\ncell 3: 9\n",
    "flaky_hunt": "flaky\nkept one that ",
    "failing_frame": "the program: captured\nthe copy: ('3', 3)\n",
    "dev_server": "visit 1\nsuspended\nvisit 2\n",
    "password_prompt": "waits for a password: Password: \nin the copy: wrong\nin the original: unlocked\n",
    "durable_job": "left it running\nlines in the log: 1\nlines in the log: 1\n",
    "devcontainer": "['dev', 'prepared']\n['dev', 'prepared']\n",
}

OF_CLIENTS = {"e2b_migration", "inspect_eval"}
"""Those that need packages of others; `doors/test_readme_agents.py` runs them."""


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_its_shown_output(cli: Cli, hf: Holdfast, tmp_path: Path, name: str) -> None:
    """And removes its sessions."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=cli.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert PRINTED[name] in done.stdout
    assert hf.sessions() == []


def test_every_example_is_listed_and_tested() -> None:
    """In the folder's README, and by a test."""
    there = {path.stem for path in EXAMPLES.glob("*.py")}
    assert there == set(PRINTED) | OF_CLIENTS
    assert len(there) >= 10
    assert set(re.findall(r"\((\w+)\.py\)", (EXAMPLES / "README.md").read_text())) == there
