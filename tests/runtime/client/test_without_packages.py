"""Without the packages of a client its extra is named, in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = "import sys; sys.modules['websockets'] = None; sys.argv[0] = 'holdfast'\n"


@pytest.mark.parametrize(
    "program",
    [
        "from holdfast.runtime.cli.main import main; sys.argv[1:] = ['ls']; sys.exit(main())",
        "from holdfast.runtime.cli.main import main; sys.argv[1:] = ['exec', 'w', 'x']; sys.exit(main())",
        "from holdfast import Holdfast; Holdfast('http://127.0.0.1:1')",
        "from holdfast import AsyncHoldfast",
    ],
)
def test_the_extra_of_a_client_is_named(program: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "HOLDFAST_URL": "http://127.0.0.1:1",
        "HOLDFAST_TOKEN": "x" * 20,
        "HOLDFAST_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.strip()
    assert "cannot use a server: the packages for that are not installed" in last
    assert "ModuleNotFoundError" not in last
    if "main" in program:
        assert f"{sys.executable} -m pip install 'websockets<18,>=15'" in last
        assert "Traceback" not in last
