"""Git's files, as Git writes them and as an enemy would."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from holdfast.runtime.history.repositories import git_files
from holdfast.runtime.history.repositories.repository_state import (
    RepositoriesSeen,
    RepositoryState,
    changes,
    parse,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(tree: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    named = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
    done = subprocess.run(
        ["git", *named, *words], cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with some commits, on branch `topic/one`."""
    git(tmp_path, "init", "-q", "-b", "topic/one")
    for name in ("a", "folder/b", "käse", "x" * 200, "eight888"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("a")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


@pytest.mark.parametrize("version", ["2", "3"])
def test_an_index_is_read_as_git_writes_it(tree: Path, version: str) -> None:
    """Every name, whatever its length, with the size and the time of its file."""
    if version == "3":  # what makes an index of version 3: an entry with an extended flag
        (tree / "later").write_text("later")
        git(tree, "add", "--intent-to-add", "later")
    data = (tree / ".git/index").read_bytes()
    assert data[7] == int(version)
    found = git_files.read_index(data)
    assert found is not None
    names = git(tree, "-c", "core.quotePath=off", "ls-files").splitlines()
    assert [each.path for each in found] == names
    for each in found:
        if each.path != "later":
            there = (tree / each.path).lstat()
            assert (each.size, each.mtime) == (there.st_size, int(there.st_mtime))


def test_files_that_are_left_out_on_purpose_do_not_count(tree: Path) -> None:
    """Because of a sparse checkout, or since they are assumed to be unchanged; nor do other repositories."""
    git(tree, "update-index", "--skip-worktree", "a")
    git(tree, "update-index", "--assume-unchanged", "folder/b")
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{COMMIT},module")
    found = git_files.read_index((tree / ".git/index").read_bytes())
    assert found is not None
    assert {each.path for each in found} == {"eight888", "käse", "link", "x" * 200}


def test_an_index_of_a_later_version_is_not_counted(tree: Path) -> None:
    git(tree, "update-index", "--index-version", "4")
    assert git_files.read_index((tree / ".git/index").read_bytes()) is None


def test_head_and_references_are_read_as_git_writes_them(tree: Path) -> None:
    commit = git(tree, "rev-parse", "HEAD")
    head = (tree / ".git/HEAD").read_bytes()
    assert git_files.read_head(head) == ("refs/heads/topic/one", None)
    assert git_files.read_commit((tree / ".git/refs/heads/topic/one").read_bytes()) == commit
    git(tree, "pack-refs", "--all")
    packed = (tree / ".git/packed-refs").read_bytes()
    assert git_files.find_packed(packed, "refs/heads/topic/one") == commit
    assert git_files.find_packed(packed, "refs/heads/topic") is None
    git(tree, "checkout", "-q", "--detach")
    assert git_files.read_head((tree / ".git/HEAD").read_bytes()) == (None, commit)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"ref: ../../../etc/passwd",
        b"ref: refs/../../../../etc/shadow",
        b"ref: /etc/passwd",
        b"ref: refs/heads/a\nref: refs/heads/b",
        b"ref: refs/heads/\x1b]0;x\x07",
        b"ref: refs/heads/" + b"a" * 100_000,
        b"\xff" * 40,
        COMMIT.encode().upper(),
        COMMIT.encode() + b"0",
        b"\0" * 5000,
    ],
)
def test_a_hostile_head_names_nothing(head: bytes) -> None:
    """Neither a path out of the repository, nor what a terminal would obey."""
    assert git_files.read_head(head) == (None, None)


def test_a_hostile_index_is_read_within_bounds(tree: Path) -> None:
    """Cut anywhere, with any byte altered, with counts and names that lie: a list, or nothing."""
    data = (tree / ".git/index").read_bytes()
    dice = random.Random(7)
    for cut in range(0, len(data), 7):
        git_files.read_index(data[:cut])
    for _ in range(2000):
        altered = bytearray(data)
        for _ in range(dice.randrange(1, 4)):
            altered[dice.randrange(len(altered))] = dice.randrange(256)
        for entry in git_files.read_index(bytes(altered)) or []:
            assert not entry.path.startswith("/")
            assert ".." not in entry.path.split("/")
    assert git_files.read_index(data[:8] + b"\xff\xff\xff\xff" + data[12:]) is None
    assert git_files.read_index(b"DIRC" + bytes(20 << 20)) is None
    out = data.replace(b"folder/b\0", b"../../et\0")
    assert {each.path for each in git_files.read_index(out) or []}.isdisjoint({"../../et"})


@pytest.mark.parametrize("data", [b"", b"gitdir:", b"gitdir: a\0b", b"/etc", b"gitdir: " + b"a" * 10_000])
def test_a_hostile_pointer_leads_nowhere(data: bytes) -> None:
    assert git_files.read_gitdir(data) is None


def test_changes_are_named_in_one_line() -> None:
    """Of branch, commit and files; a repository that came or went; nothing that is as it was."""
    one = RepositoryState("/a", "main", "1" * 40, 0)
    found = changes(
        [one, RepositoryState("/b", "main", "2" * 40, 1), RepositoryState("/gone", None, "3" * 40)],
        [one, RepositoryState("/b", "topic", "4" * 40, 3), RepositoryState("/new", "main\x1b[2J", None)],
    )
    assert [each.text for each in found] == [
        "git /b: main 22222222 -> topic 44444444, files changed since the index: 1 -> 3",
        "git /gone: - no branch 33333333",
        "git /new: + main[2J no commit",
    ]
    only = changes([one], [RepositoryState("/a", "main", "1" * 40, None)])
    assert [each.text for each in only] == ["git /a: files changed since the index: 0 -> not counted"]


def test_what_was_recorded_is_read_without_trust() -> None:
    kept = RepositoriesSeen("/srv", (RepositoryState("/a", "main", COMMIT, 2),))
    assert parse(kept.as_dict()) == kept
    invalid: list[object] = [None, [], {"found": []}, {"place": 1}]
    for each in invalid:
        assert parse(each) is None
    rows = [1, {}, {"path": 2}, {"path": "/x", "branch": 1, "commit": [], "dirty": "3"}]
    assert parse({"place": "/", "found": rows}) == RepositoriesSeen("/", (RepositoryState("/x"),))
    many = parse({"place": "/", "found": [{"path": str(n)} for n in range(100)]})
    assert many is not None
    assert len(many.found) == 20
