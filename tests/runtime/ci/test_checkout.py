"""The part of a checkout that goes into a session."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.ci import checkout, copy_checkout
from holdfast.runtime.ci.checkout import Checkout, harmless_config

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]

    def run(folder: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    return run


@pytest.fixture
def repo(tmp_path: Path, git: Git) -> Path:
    """A checkout with everything that is copied, and everything that is not."""
    root = tmp_path / "repo"
    (root / "sub").mkdir(parents=True)
    (root / "out").mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("out/\n*.log\n")
    (root / "sub" / "a.txt").write_text("a")
    (root / "gone").write_text("x")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("sub/a.txt")
    (root / "away").symlink_to("/etc/passwd")
    (root / "näme with\nnewline").write_text("n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    (root / "untracked").write_text("u")
    (root / "x.log").write_text("ignored")
    (root / "out" / "big").write_text("ignored")
    (root / "gone").unlink()
    return root


def names(found: Checkout) -> set[str]:
    return {name for name, _ in found.entries if not name.startswith(".git/")}


def unpacked(found: Checkout, folder: Path, owner: tuple[int, int] = (0, 0)) -> dict[str, tarfile.TarInfo]:
    file = io.BytesIO()
    copy_checkout.pack(found, file, owner)
    file.seek(0)
    with tarfile.open(fileobj=file) as archive:
        members = {member.name: member for member in archive.getmembers()}
        for member in members.values():
            member.uid, member.gid = os.getuid(), os.getgid()
        file.seek(0)
        archive.extractall(folder, filter="fully_trusted")
    return members


def test_files_that_git_would_keep_are_copied(repo: Path) -> None:
    """Tracked and untracked files, links as links; nothing that is ignored or gone."""
    found = checkout.look(repo)
    assert names(found) == {
        ".gitignore", "sub/a.txt", "run.sh", "link", "away", "näme with\nnewline", "untracked",
    }  # fmt: skip


def test_git_works_in_the_copy(repo: Path, git: Git, tmp_path: Path) -> None:
    """The copy is a checkout of the same commit in the same state."""
    copy = tmp_path / "copy"
    found = checkout.look(repo)
    unpacked(found, copy)
    assert git(copy, "log", "--format=%H") == git(repo, "log", "--format=%H")
    assert set(git(copy, "status", "--porcelain").split("\n")) == {"D gone", "?? untracked"}
    assert found.revision == f"{git(repo, 'rev-parse', 'HEAD')} and changes"
    assert (copy / "link").readlink() == Path("sub/a.txt")
    assert (copy / "away").readlink() == Path("/etc/passwd")
    assert os.access(copy / "run.sh", os.X_OK)


def test_the_owner_is_the_sessions_user(repo: Path, tmp_path: Path) -> None:
    """Also of folders that git does not know."""
    file = io.BytesIO()
    copy_checkout.pack(checkout.look(repo), file, (1000, 1001))
    file.seek(0)
    with tarfile.open(fileobj=file) as archive:
        owners = {(member.uid, member.gid, member.uname) for member in archive.getmembers()}
    assert owners == {(1000, 1001, "")}


def test_from_a_folder_of_a_checkout_all_of_it_is_taken(repo: Path) -> None:
    """And the command begins in that folder."""
    found = checkout.look(repo / "sub")
    assert found.inside == "sub"
    assert "run.sh" in names(found)


def test_a_linked_worktree_becomes_a_checkout_of_its_own(repo: Path, git: Git, tmp_path: Path) -> None:
    """Its branch, its index, and the history it shares."""
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "-b", "other", str(linked))
    (linked / "gone").write_text("changed")
    copy = tmp_path / "copy"
    unpacked(checkout.look(linked), copy)
    assert git(copy, "branch", "--show-current") == "other"
    assert git(copy, "status", "--porcelain") == "M gone"


def test_submodules_come_along(repo: Path, git: Git, tmp_path: Path) -> None:
    """With what is in them, and as checkouts that git understands."""
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "deep").write_text("d")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "inner")
    git(repo, "submodule", "add", "-q", str(inner), "module")
    (repo / "module" / "new").write_text("n")
    copy = tmp_path / "copy"
    unpacked(checkout.look(repo), copy)
    assert (copy / "module" / "deep").read_text() == "d"
    assert git(copy / "module", "status", "--porcelain") == "?? new"


def test_credentials_are_left_out(repo: Path, git: Git, tmp_path: Path) -> None:
    """Credentials that CI systems leave in the configuration do not enter the session."""
    git(repo, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic c2VjcmV0")
    git(repo, "config", "remote.origin.url", "https://x:t0ken@host/repo.git")
    git(repo, "config", "credential.helper", "store --file /root/credentials")
    copy = tmp_path / "copy"
    unpacked(checkout.look(repo), copy)
    text = (copy / ".git" / "config").read_text()
    assert "c2VjcmV0" not in text
    assert "t0ken" not in text
    assert "credentials" not in text
    assert git(copy, "config", "remote.origin.url") == "https://x@host/repo.git"


def test_a_configuration_keeps_the_rest() -> None:
    """Nothing else is changed."""
    text = '[core]\n\tbare = false\n[remote "o"]\n\turl = git@host:a/b.git\n'
    assert harmless_config(text) == text


def test_a_folder_that_is_not_a_checkout_is_copied_entirely(tmp_path: Path, git: Git) -> None:
    """With empty folders, and with a note."""
    (tmp_path / "a" / "empty").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("x")
    found = checkout.look(tmp_path / "a")
    assert names(found) == {"empty", "file"}
    assert found.revision is None
    assert found.notes


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(InvalidArgument, match="there is no such folder"):
        checkout.look(tmp_path / "nothing")


def test_a_file_that_vanishes_meanwhile_is_left_out(repo: Path, tmp_path: Path) -> None:
    """As if it had gone before."""
    found = checkout.look(repo)
    (repo / "untracked").unlink()
    assert "untracked" not in unpacked(found, tmp_path / "copy")


@pytest.mark.parametrize(
    ("user", "owner"),
    [(None, (0, 0)), ("ada", (1000, 1001)), ("1000", (1000, 1001)), ("7:8", (7, 8)), ("99", (99, 0))],
)
def test_users_are_found_in_the_sessions_own_table(user: str | None, owner: tuple[int, int]) -> None:
    """By name or number; an unused number stands for itself."""
    assert (
        copy_checkout.identity(b"root:x:0:0:r:/root:/bin/sh\nada:x:1000:1001::/home/ada:/bin/sh\n", user)
        == owner
    )


def test_an_unknown_user_is_an_error() -> None:
    """Instead of giving the files to root."""
    with pytest.raises(InvalidArgument, match="none of that name"):
        copy_checkout.identity(b"root:x:0:0::/:/bin/sh\n", "bob")
