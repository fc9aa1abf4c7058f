"""The consoles of the README and of the tutorials show real output, also on a busy machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.busy_machine import busy_machine
from tests.integration.conftest import Cli

from holdfast.runtime.api.controller import Holdfast

ROOT = Path(__file__).parents[2]
WAITS = 75
ANYTHING = "…"
"""A shown line that stands for any number of lines."""
SECONDS = 300
SUM_OF_ROWS = """def test_total():
    rows, total = [1, 2, "3"], 0
    for row in rows:
        total += row
    assert total == 6
"""


@pytest.fixture
def typed(cli: Cli, hf: Holdfast, tmp_path: Path) -> Path:
    """Return an empty folder in which `holdfast` is a command; `hf` removes what a page leaves."""
    (programs := tmp_path / "programs").mkdir()
    (programs / "holdfast").write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    (programs / "holdfast").chmod(0o755)
    cli.environment["PATH"] = f"{programs}:{cli.environment['PATH']}"
    (folder := tmp_path / "folder").mkdir()
    return folder


@pytest.mark.parametrize("page", ["agent", "notebook", "ci"])
def test_a_tutorial_shows_real_output(cli: Cli, typed: Path, page: str) -> None:
    """Each command of the tutorial, typed in order, prints the lines below it."""
    with busy_machine():
        count = run(cli, typed, (ROOT / "docs" / "tutorials" / f"{page}.md").read_text())
    assert count >= 5


def test_the_readme_shows_real_output(cli: Cli, typed: Path) -> None:
    """The console about the shell."""
    text = (ROOT / "README.md").read_text()
    sections = dict(part.partition("\n")[::2] for part in text.split("\n## "))
    with busy_machine():
        count = run(cli, typed, sections["At the shell"])
    assert count > 5


@pytest.mark.thorough
def test_the_readmes_failing_test_waits_at_its_frame(cli: Cli, typed: Path) -> None:
    """The job of the README, with packages from a folder; its failure is thawed, and asked as shown."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.13"]
    subprocess.run([*pip, f"--dest={typed / 'wheels'}", "pytest"], check=True)
    (typed / "tests").mkdir()
    (typed / "tests" / "test_a.py").write_text(SUM_OF_ROWS)
    text = (ROOT / "README.md").read_text().split("\n## Your CI\n")[1].split("\n## ")[0]
    job, rest = re.search(r"^```console\n\$ (.*?)\n\$ (.*?)^```$", text, re.M | re.S).groups()  # type: ignore[union-attr]
    thaw, *shown = rest.splitlines()
    offline = job.replace("pip install -q", "pip install -q --no-index --find-links wheels")
    assert offline != job

    def typing(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line], cwd=typed, env=cli.environment, capture_output=True, text=True, check=False
        )

    done = typing(offline)
    assert done.returncode == 1, done.stdout + done.stderr
    done = typing(f"{thaw.partition(' #')[0]} --name thawed --json")
    assert done.returncode == 0, done.stderr
    frame, asked, answer = shown
    assert frame in cli("screen", "thawed").out
    said = cli("send", "thawed", "--wait", "-e", asked.removeprefix("(Pdb) "))
    assert answer in said.out + said.err


def run(cli: Cli, folder: Path, page: str) -> int:
    """Type every command of a page and compare what it prints with the lines below it, where there are any.

    Returns:
        how many commands there were.
    """
    count = 0
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=cli.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            said = f"$ {command}\n{done.stdout}{done.stderr}"
            # A job of CI ends as its command does, which fails here.
            allowed = {1} if command.startswith("holdfast ci run") else {0, WAITS}
            assert done.returncode in allowed, said
            if expected := shown.rstrip("\n"):
                assert matches(expected, done.stdout), f"{said}\n--- shown:\n{expected}"
            count += 1
    return count


def matches(shown: str, printed: str) -> bool:
    """Return whether a program printed what a page shows, but for colours and spaces at the ends of lines."""
    lines = (".*" if line == ANYTHING else re.escape(line.rstrip()) for line in shown.splitlines())
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    found = "\n".join(line.rstrip() for line in plain.strip("\n").splitlines())
    return re.fullmatch("\n?".join(lines), found, re.S) is not None


def test_a_console_that_shows_other_output_is_found() -> None:
    """The comparison itself: a different, missing or additional line; and the lines the ellipsis covers."""
    assert matches("a\n…\nd", "a\nb\nc\nd\n")
    assert matches("a\n…", "a\n")
    assert not matches("a", "a\nb\n")
    assert not matches("a\nb", "a\n")
    assert not matches("a", "b")
