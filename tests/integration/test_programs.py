"""Real programs go on after a capture: some of the catalog, and how the command speaks of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.cli import app
from holdfast.runtime.programs import catalog

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

QUICK = ("bash-jobs", "zombies", "other-user", "python-asyncio", "pdb", "c-files")


def test_programs_continue_in_parent_and_copies(
    hf: Holdfast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six at once, by the command: the result is JSON on standard output and a page, progress is told."""
    page = tmp_path / "page.md"
    code = app.call(["doctor", "--programs", "--only", ",".join(QUICK), "--json", "--markdown", str(page)])
    out, told = capsys.readouterr()
    found = json.loads(out)
    assert [(one["name"], one["reason"]) for one in found if one["result"] != "works"] == [], told
    assert code == 0
    assert {one["together"] for one in found} == {len(QUICK)}, told
    assert all(f"works: {name}" in told for name in QUICK)
    assert all(f"| {name} |" in page.read_text() for name in QUICK)


def test_the_command_lists_what_there_is(cli: Any) -> None:
    """Without an engine; a wrong name is refused, and so is what only goes with programs."""
    names = [entry["name"] for entry in cli("doctor", "--programs", "--list", "--json").json]
    assert names == [program.name for program in catalog.PROGRAMS]
    assert cli("doctor", "--programs", "--only", "emacs", "--json").error["code"] == "invalid_argument"
    assert cli("doctor", "--list", "--json").error["code"] == "invalid_argument"
