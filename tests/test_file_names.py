"""Files that the documents name are there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|c|h))`")


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    return [name for name in listed.stdout.decode().splitlines() if (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "page", [path.relative_to(ROOT).as_posix() for path in DOCS if path.name != "CHANGELOG.md"]
)
def test_files_named_on_pages_exist(page: str) -> None:
    """By its path, or by the end of it."""
    there = [f"/{name}" for name in files()]
    named = set(NAMED.findall((ROOT / page).read_text()))
    assert {name for name in named if not any(one.endswith(f"/{name}") for one in there)} == set()
