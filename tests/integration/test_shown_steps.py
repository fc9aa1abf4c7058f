"""Long operations say what they are doing, to programs and on a person's terminal; cells show pictures."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.runtime.cli.test_cell_pictures import png

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.capture import copied_amounts
from holdfast.runtime.operations.step import Step

PICTURE = base64.b64encode(png(64, 48)).decode()
CELL = f"""
import base64
from IPython.display import HTML, Image, display
display(Image(base64.b64decode("{PICTURE}")))
display(HTML("<b>bold</b>"))
"""
FREEZING = re.compile(r"freezing steps with [1-9]\d* processes, copying its memory and files")


def test_a_program_is_given_each_step_and_the_end(
    home: Home, hf: Holdfast, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot and forks have several steps each, None is the last, and pictures of a cell are kept."""
    monkeypatch.setattr(copied_amounts, "PATIENCE", 0.0)
    steps: list[Step | None] = []
    with Holdfast(home, on_step=steps.append) as watched:
        session = watched.new("steps")
        assert told(steps) >= {"creating the container of steps", "waiting for the shell of steps"}
        snapshot = session.snapshot("one")
        taken = told(steps)
        assert any(FREEZING.fullmatch(text) for text in taken), taken
        assert taken >= {
            "checking what would survive of steps",
            "preparing steps",
            "copying the memory of steps, MiB",
            "storing the snapshot of steps",
        }
        snapshot.fork(2, "copy")
        forked = told(steps)
        assert forked >= {"creating the container of copy-1", "creating the container of copy-2"}
        assert any(text.startswith("restoring the processes of copy-2, ") for text in forked)
        shown = cli("cell", "steps", CELL)
        assert (shown.code, shown.out) == (0, "")
        first, second = shown.err.splitlines()
        kept = [Path(line.rpartition(": ")[2]) for line in (first, second)]
        assert first == f"holdfast: 64 x 48 PNG: {home.root / 'pictures' / 'picture-1.png'}"
        assert [path.read_bytes() for path in kept] == [png(64, 48), b"<b>bold</b>"]
        assert cli("cell", "steps", CELL, "--save", str(tmp_path / "plots")).code == 0
        assert (tmp_path / "plots" / "picture-1.png").read_bytes() == png(64, 48)
        session.remove()
        assert told(steps) == {"removing steps"}


def told(steps: list[Step | None]) -> set[str]:
    """Return the steps since the last call, which ended."""
    assert steps[-1] is None
    texts = {step.text for step in steps if step is not None}
    steps.clear()
    return texts
