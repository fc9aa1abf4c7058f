"""The texts that bash gets: tried in a bash, in a folder of the test instead of the session's."""

import dataclasses
import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.compat.projects import commands
from tests.compat.projects.project import Project

PROJECT = Project("a", "c", "does", "cat made; exit 3", fetch="echo 'it''s' > made", files=("made", "out"))


@pytest.fixture
def bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in [
        ("HOME", ""),
        ("TREE", "/tree"),
        ("RUN", "/run"),
        ("LOG", "/log"),
        ("GIVEN", "/given"),
    ]:
        monkeypatch.setattr(commands, name, f"{tmp_path}{value}")
    return tmp_path


def said(command: str) -> tuple[int, str]:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_project_is_fetched_built_and_run_in_a_fresh_copy(bash: Path) -> None:
    """The exit code is the command's, though its output goes through a pipe; each copy is new."""
    project = dataclasses.replace(PROJECT, build="echo built >> made")
    assert said(commands.prepared(project))[0] == 0
    for _ in range(2):
        assert said(commands.renewed())[0] == 0
        assert not (bash / "run" / "out").exists()
        assert said(commands.run(project)) == (3, "its\nbuilt\n")
        assert (bash / "log").read_text() == "its\nbuilt\n"
        (bash / "run" / "out").mkdir()


@pytest.mark.parametrize(
    "change", [{"fetch": "false\ntrue"}, {"build": "exit 4\n"}, {"fetch": "echo $unset"}]
)
def test_failures_before_the_test_are_seen(bash: Path, change: dict[str, Any]) -> None:
    """The first command that fails ends it."""
    assert said(commands.prepared(dataclasses.replace(PROJECT, **change)))[0] != 0


def test_a_folder_of_the_host_comes_first(bash: Path) -> None:
    """With its hidden files."""
    (bash / "given").mkdir()
    (bash / "given" / ".hidden").write_text("x")
    project = dataclasses.replace(PROJECT, folder="/anywhere", fetch="mv .hidden made")
    assert said(commands.prepared(project))[0] == 0
    assert (bash / "tree" / "made").read_text() == "x"


def test_files_are_compared_by_digest_and_folders_with_all_in_them(bash: Path) -> None:
    """By path, including names that bash would split; a missing file is not an error."""
    folder = bash / "run" / "out" / "a b"
    folder.mkdir(parents=True)
    (folder / "file\n2").write_text("two")
    (folder.parent / "$(one)").write_text("one")
    code, text = said(commands.digests(PROJECT))
    found = commands.read_digests(text)
    assert code == 0
    assert len(found) == 2
    assert found["out/$(one)"] == hashlib.sha256(b"one").hexdigest()[:16]


def test_malformed_digests_are_left_out() -> None:
    """A shell can print lines of its own."""
    assert commands.read_digests("[1]+  Done  sleep\n" + "a" * 64 + "  out\n") == {"out": "a" * 16}
