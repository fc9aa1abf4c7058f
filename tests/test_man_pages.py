"""Manual pages and completions are made of the command line's own description."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.runtime.cli.test_help_pages import LEAVES

MAKER = Path(__file__).parents[1] / "setup" / "man_pages.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with all of them."""
    folder = tmp_path_factory.mktemp("made")
    subprocess.run([sys.executable, MAKER, folder], check=True, timeout=60)
    return folder


def test_every_verb_has_a_page(made: Path) -> None:
    """With its synopsis, options and examples; the page of all names each verb."""
    manual = made / "man" / "man1"
    assert {path.name for path in manual.iterdir()} >= {
        f"holdfast-{verb.replace(' ', '-')}.1" for verb in LEAVES
    }
    exec_page = (manual / "holdfast-exec.1").read_text()
    assert ".SH SYNOPSIS\n.B holdfast exec [OPTIONS]" in exec_page
    assert "\\-\\-timeout S\n" in exec_page
    assert LEAVES["exec"].examples[2].replace("-", "\\-") in exec_page
    assert ".BR holdfast-fork (1)" in (manual / "holdfast.1").read_text()


def test_no_text_is_taken_for_a_request(made: Path) -> None:
    """A line that begins with a dot is one of ours, as man(7) has them."""
    for path in (made / "man" / "man1").iterdir():
        starts = {line.split(" ")[0] for line in path.read_text().splitlines() if line.startswith((".", "'"))}
        assert starts <= {".TH", ".SH", ".TP", ".B", ".BR", ".PP", ".nf", ".fi"}, path.name


@pytest.mark.parametrize("place", ["bash/holdfast", "zsh/_holdfast", "fish/holdfast.fish"])
def test_shells_find_their_completions(made: Path, place: str) -> None:
    """They ask the command, which knows its verbs and sessions."""
    assert "_HOLDFAST_COMPLETE" in (made / "completions" / place).read_text()
