"""Real programs continue after a capture: some of the catalog, as `make programs` tries them."""

from pathlib import Path

import pytest
from tests.compat.__main__ import run

from holdfast.runtime.api.controller import Holdfast

pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

QUICK = ("bash-jobs", "zombies", "other-user", "python-asyncio", "pdb", "c-files")


def test_programs_continue_in_parent_and_copies(
    hf: Holdfast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six in parallel: each result and a page; progress is printed separately."""
    page = tmp_path / "page.md"
    assert run(["programs", "run", *QUICK, "--write", str(page)]) == 0
    out, told = capsys.readouterr()
    *found, counts = out.splitlines()
    assert [line for line in found if not line.startswith("works: ")] == [], told
    assert {line.split(": ")[1] for line in found} == set(QUICK)
    assert counts == f"{len(QUICK)} programs: {len(QUICK)} work, 0 are refused by name, 0 are red."
    assert [line.count(", ") for line in told.splitlines() if line.startswith("trying ")] == [5], told
    assert all(f"| {name} |" in page.read_text() for name in QUICK)
