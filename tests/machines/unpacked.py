"""Programs that the tests start, and that do not have to be installed: see `setup/unpacked`."""

from __future__ import annotations

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def program(path: str, *packages: str) -> Path:
    """Return where the program is; its packages are fetched if it is missing. Fails if they cannot be."""
    command = ["setup/unpacked", path, *packages]
    done = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())
