"""The part of a checkout that goes into a session."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.base import own_folders
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.ci import checkout
from holdfast.runtime.ci.checkout import Checkout
from holdfast.runtime.ci.delivery import DeliveryTarget
from holdfast.runtime.history.repositories import git_config

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
    checkout.pack(found, file, owner)
    file.seek(0)
    with tarfile.open(fileobj=file) as archive:
        members = {member.name: member for member in archive.getmembers()}
        for member in members.values():
            member.uid, member.gid = os.getuid(), os.getgid()
        file.seek(0)
        archive.extractall(folder, filter="fully_trusted")
    return members


def test_files_that_git_would_keep_are_copied(repo: Path) -> None:
    """Tracked and untracked files, links as links; no ignored or deleted ones."""
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
    found, amounts = checkout.look(repo), []
    checkout.pack(found, file, (1000, 1001), lambda packed, total: amounts.append((packed, total)))
    assert amounts == [(0, len(found.entries))]
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
    assert git_config.harmless(text) == text


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
    """As if it had been deleted before."""
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
        checkout.identity(b"root:x:0:0:r:/root:/bin/sh\nada:x:1000:1001::/home/ada:/bin/sh\n", user) == owner
    )


def test_an_unknown_user_is_an_error() -> None:
    """Instead of giving the files to root."""
    with pytest.raises(InvalidArgument, match="has no such user"):
        checkout.identity(b"root:x:0:0::/:/bin/sh\n", "bob")


def _hostile_filter(repo: Path, marker: Path) -> None:
    """Have git run a program for each file whose state it does not know."""
    config = f'[filter "x"]\n\tclean = touch {marker}; cat\n\tprocess = touch {marker}\n'
    config += f"[core]\n\tfsmonitor = touch {marker}\n\tsshCommand = touch {marker}\n"
    with (repo / ".git" / "config").open("a") as file:
        file.write(config)
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=x\n")
    (repo / "run.sh").write_text("#!/bin/sh\necho another\n")


def test_nothing_that_a_repository_names_is_run(
    repo: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its filters nor git itself, which would run them; whether files differ is then unknown."""
    marker, programs = tmp_path / "attacked", tmp_path / "programs"
    git(repo, "checkout", "-q", "gone")
    _hostile_filter(repo, marker)
    with monkeypatch.context() as without:
        programs.mkdir()
        (programs / "git").write_text(f"#!/bin/sh\n: > {marker}\n")
        (programs / "git").chmod(0o755)
        without.setenv("PATH", str(programs))
        subprocess.run(["git"], check=True)
        assert marker.exists()  # whoever runs git now is seen
        marker.unlink()
        found = checkout.look(repo)
    assert not marker.exists()
    assert found.revision == f"{git(repo, 'rev-parse', 'HEAD')} and perhaps changes"
    assert {"run.sh", "untracked"} <= names(found)
    with suppress(subprocess.CalledProcessError):  # the program is no filter
        git(repo, "status")
    assert marker.exists()


def test_no_link_leads_out_of_a_checkout(repo: Path, git: Git, tmp_path: Path) -> None:
    """Not beneath a tracked folder, not for its configuration, not for git's own files."""
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "a.txt").write_text("secret")
    (repo / "sub" / "a.txt").unlink()
    (repo / "sub").rmdir()
    (repo / "sub").symlink_to(secret)
    (repo / ".git" / "config").unlink()
    (repo / ".git" / "config").symlink_to(secret / "a.txt")
    (repo / ".git" / "info").rename(repo / ".git" / "other")
    (repo / ".git" / "info").symlink_to(secret)
    data = (repo / ".git" / "index").read_bytes()
    assert b"run.sh\0\0\0\0" in data
    found = checkout.look(repo)
    assert "sub/a.txt" not in names(found)
    copy = tmp_path / "copy"
    unpacked(found, copy)
    assert (copy / "sub").readlink() == secret
    assert (copy / ".git" / "config").readlink() == secret / "a.txt"
    for path in copy.rglob("*"):
        assert path.is_symlink() or path.is_dir() or b"secret" not in path.read_bytes()


def test_a_link_that_comes_meanwhile_is_not_followed(repo: Path, tmp_path: Path) -> None:
    found = checkout.look(repo)
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "a.txt").write_text("secret")
    (repo / "sub").rename(tmp_path / "away")
    (repo / "sub").symlink_to(secret)
    assert "sub/a.txt" in names(found)
    assert "sub/a.txt" not in unpacked(found, tmp_path / "copy")


def test_a_repository_is_not_one_from_elsewhere(repo: Path, git: Git, tmp_path: Path) -> None:
    """A folder that names another repository of this user as its own gets nothing of it."""
    for way in ("file", "link", "commondir", "worktree", "submodule"):
        hostile = tmp_path / way
        hostile.mkdir()
        own = hostile / ".git"
        if way == "file":
            own.write_text(f"gitdir: {repo}/.git\n")
        elif way == "link":
            own.symlink_to(repo / ".git")
        elif way == "commondir":
            git(hostile, "init", "-q")
            (own / "commondir").write_text(f"{repo}/.git\n")
        elif way == "worktree":  # a real one of the user's
            git(repo, "worktree", "add", "-q", "-b", "private", str(tmp_path / "private"))
            own.write_text(f"gitdir: {repo}/.git/worktrees/private\n")
        else:
            git(hostile, "init", "-q")
            git(hostile, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
            (hostile / "inner").mkdir()
            (hostile / "inner" / ".git").write_text(f"gitdir: {repo}/.git\n")
            found = checkout.look(hostile)
            assert names(found) == set()
            assert found.notes == ("inner is left out: its .git leads elsewhere",)
            continue
        with pytest.raises(InvalidArgument, match=r"its \.git does not lead to a repository of its own"):
            checkout.look(hostile)


def test_nothing_is_waited_for(repo: Path, git: Git) -> None:
    """Pipes in the place of files that are read do not count."""
    for name in (".gitignore", ".git/info/exclude", ".git/packed-refs", ".git/info/attributes"):
        (repo / name).unlink(missing_ok=True)
        os.mkfifo(repo / name)
    assert "untracked" in names(checkout.look(repo))
    (repo / ".git" / "index").unlink()
    os.mkfifo(repo / ".git" / "index")
    assert "its index cannot be read: ignored files are left out" in checkout.look(repo).notes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_checkout_of_another_user_is_refused(
    repo: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git does, in one line; also if the folder itself is one's own; not if the caller trusts it."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    os.chown(repo / ".git", 65534, 65534)
    with pytest.raises(InvalidArgument, match=r"\.git belongs to another user \(uid 65534\)$") as refused:
        checkout.look(repo / "sub")
    assert f"safe.directory {repo}" in refused.value.hint
    with pytest.raises(subprocess.CalledProcessError):
        git(repo, "status")
    monkeypatch.setenv("SUDO_UID", "65534")
    assert "run.sh" in names(checkout.look(repo))
    monkeypatch.delenv("SUDO_UID")
    config = tmp_path / "gitconfig"
    config.write_text(f'[safe]\n\tdirectory = /other\n\tdirectory = "{repo}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert "run.sh" in names(checkout.look(repo))


def _changes(repo: Path, git: Git) -> str:
    revision = checkout.look(repo).revision
    assert revision
    assert revision.startswith(git(repo, "rev-parse", "HEAD"))
    return revision.partition(" ")[2]


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
@pytest.mark.parametrize("packed", [False, True])
def test_changes_are_reported_without_git(
    tmp_path: Path, git: Git, version: int, form: str, packed: bool
) -> None:
    """A written, added or removed file, or one made executable; not a merely touched one."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", f"--object-format={form}")
    (repo / "folder").mkdir()
    for name in ("a", "folder/b", "folder-c", "käse"):
        (repo / name).write_text(name)
    (repo / "link").symlink_to("a")
    git(repo, "add", "-A")
    git(repo, "update-index", "--index-version", str(version))
    git(repo, "commit", "-qm", "one")
    if packed:
        git(repo, "gc", "-q")
    assert _changes(repo, git) == ""
    os.utime(repo / "a", (1, 1))
    assert _changes(repo, git) == ""
    (repo / "a").write_text("b")
    assert _changes(repo, git) == "and changes"
    git(repo, "add", "a")
    assert _changes(repo, git) == "and changes"
    git(repo, "reset", "-q", "--hard")
    assert _changes(repo, git) == ""
    (repo / "a").chmod(0o755)
    assert _changes(repo, git) == "and changes"
    git(repo, "reset", "-q", "--hard")
    (repo / "link").unlink()
    (repo / "link").symlink_to("folder")
    assert _changes(repo, git) == "and changes"
    git(repo, "reset", "-q", "--hard")
    (repo / "new").touch()
    assert _changes(repo, git) == ""
    git(repo, "add", "-N", "new")
    assert _changes(repo, git) == "and changes"
    (repo / "new").unlink()
    assert _changes(repo, git) == "and changes"


def test_ends_of_lines_do_not_count_as_change(repo: Path, git: Git) -> None:
    git(repo, "config", "core.autocrlf", "true")
    git(repo, "checkout", "-q", "gone")
    (repo / "gone").write_bytes(b"x\r\n")
    git(repo, "add", "gone")
    git(repo, "commit", "-qm", "two")
    os.utime(repo / "gone", (1, 1))
    assert _changes(repo, git) == ""


@pytest.mark.parametrize("of_git", [True, False])
def test_files_written_by_holdfast_are_not_input(repo: Path, git: Git, tmp_path: Path, of_git: bool) -> None:
    """Captures of earlier jobs, of this version or others, their summary, and a home."""
    DeliveryTarget(repo / "captured", options={}).check(Home(tmp_path / "home").create(), lambda _: None)
    (repo / "captured" / "failure.holdfast").write_text("memory")
    (repo / "sub" / "state" / "snapshots").mkdir(parents=True)
    (repo / "sub" / "state" / "holdfast.db").write_text("memory")
    (repo / "earlier").mkdir()
    (repo / "earlier" / "failure.holdfast").write_text("memory")
    (repo / "mine.holdfast").write_text("input")
    git(repo, "add", "-f", "mine.holdfast")
    (repo / "earlier" / "notes").write_text("input")
    (repo / "summary.md").write_text("memory")
    if not of_git:
        shutil.rmtree(repo / ".git")
        (repo / "mine.holdfast").unlink()
    found = checkout.look(repo, [repo / "summary.md"])
    copy = tmp_path / "copy"
    unpacked(found, copy)
    contents = {path.read_bytes() for path in copy.rglob("*") if path.is_file() and ".git/" not in str(path)}
    assert b"memory" not in contents
    assert (copy / "earlier" / "notes").exists()
    assert (copy / "mine.holdfast").exists() == of_git
    said = {note.removesuffix(" is left out: Holdfast wrote it") for note in found.notes}
    assert said >= {"earlier/failure.holdfast", "sub/state", "summary.md"}


def test_a_folder_with_something_in_it_is_not_marked(tmp_path: Path) -> None:
    """It can be a project, which would be left out as a whole."""
    (tmp_path / "file").write_text("input")
    own_folders.make(tmp_path)
    assert not own_folders.is_own(tmp_path)
    own_folders.make(tmp_path / "new")
    own_folders.make(tmp_path / "new")
    assert own_folders.is_own(tmp_path / "new")
