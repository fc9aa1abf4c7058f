"""A checkout's repository on this machine: its place, its owner, and its files, read without Git.

Git runs what a repository's configuration names, so no command of it is let near a folder that is not
trusted. A repository's references are followed only where they lead back: the folder of a linked worktree
names the worktree, and the folder of a submodule is in the repository above it. No link is followed. As in
Git, a repository of another user is refused unless the caller's own configuration trusts it
(safe.directory).
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.history.repositories import git_config, git_files


@dataclass(frozen=True, slots=True)
class GitPlace:
    """A checkout: its working tree, its own folder in a repository, and the repository's folder."""

    root: Path
    own: Path
    common: Path


def find(folder: Path) -> GitPlace | None:
    """Return the checkout that contains a folder; None if there is none.

    Raises:
        InvalidArgument: it belongs to another user, or its `.git` leads elsewhere.
    """
    folder = folder.resolve()
    device = folder.stat().st_dev
    for root in (folder, *folder.parents):
        if root.stat().st_dev != device:
            return None  # Git also stops where another file system begins
        named = root / ".git"
        if not os.path.lexists(named):
            continue
        if not named.is_symlink() and named.is_dir() and not _is_repository(named):
            continue
        found = at(root)
        if found is None:
            raise InvalidArgument(
                f"cannot check out {plain(str(root), 200)}: its .git does not lead to a "
                "repository of its own",
                hint="use --no-checkout, or --checkout with a folder that git made",
            )
        _check_owner(found)
        return found
    return None


def at(root: Path, above: GitPlace | None = None) -> GitPlace | None:
    """Return the checkout with this working tree; None if its `.git` leads elsewhere, or to nothing.

    Args:
        root: the working tree.
        above: the checkout that it is in, as a submodule or another checkout.
    """
    named = root / ".git"
    if named.is_symlink():
        return None
    if named.is_dir():
        if not _is_repository(named) or os.path.lexists(named / "commondir"):
            return None
        return GitPlace(root, named, named)
    text = git_files.read_gitdir(read(named, git_files.MOST_HEAD))
    if text is None:
        return None
    own = Path(os.path.normpath(root / text)).resolve()
    if not (own / "HEAD").is_file():
        return None
    if above is not None and own.is_relative_to(above.common):
        return GitPlace(root, own, own)
    common = _common(own)
    return GitPlace(root, own, common) if _leads_back(root, own, common) else None


def read(path: Path, most: int) -> bytes:
    """Return a regular file; empty if there is none, or if it is longer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        data = file.read(most + 1)
    return data if len(data) <= most else b""


def head(place: GitPlace) -> str | None:
    """Return the commit that is checked out; None if that is unknown."""
    reference, commit = git_files.read_head(read(place.own / "HEAD", git_files.MOST_HEAD))
    if reference is None:
        return commit
    held = read(place.common / reference, git_files.MOST_HEAD)
    packed = read(place.common / "packed-refs", git_files.MOST_PACKED)
    return git_files.read_commit(held) or git_files.find_packed(packed, reference)


def setting(place: GitPlace, section: str, key: str) -> str | None:
    """Return a value of a repository's own configuration, the last one."""
    text = read(place.common / "config", git_config.LONGEST).decode("utf-8", "surrogateescape")
    found = git_config.values(text, section, key)
    return found[-1] if found else None


def own_settings(section: str, key: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the values in the caller's own configuration: the system's, theirs, and of the environment."""
    found: list[str] = []
    for path in _own_files(environ):
        try:
            text = path.read_bytes()[: git_config.LONGEST].decode("utf-8", "surrogateescape")
        except OSError:
            continue
        found += git_config.values(text, section, key)
    count = environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdecimal() and len(count) < 4 else 0):
        if environ.get(f"GIT_CONFIG_KEY_{number}", "").lower() == f"{section}.{key}".lower():
            found.append(environ.get(f"GIT_CONFIG_VALUE_{number}", ""))
    return found


def _own_files(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or "~").expanduser()
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() not in ("1", "true", "yes"):
        yield Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")
    if chosen := environ.get("GIT_CONFIG_GLOBAL"):
        yield Path(chosen)
        return
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config"
    yield home / ".gitconfig"


def _is_repository(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _common(own: Path) -> Path:
    """Return the folder with the references and objects, which differs for a worktree."""
    text = read(own / "commondir", git_files.MOST_HEAD).decode("utf-8", "surrogateescape").strip()
    return Path(os.path.normpath(own / text)).resolve() if text and "\0" not in text else own


def _leads_back(root: Path, own: Path, common: Path) -> bool:
    """Check that the folder named by a `.git` belongs to this very working tree."""
    if own != common:
        pointer = read(own / "gitdir", git_files.MOST_HEAD).decode("utf-8", "surrogateescape").strip()
        listed = own.parent == common / "worktrees" and _is_repository(common)
        return listed and bool(pointer) and Path(os.path.normpath(own / pointer)) == root / ".git"
    named = setting(GitPlace(root, own, own), "core", "worktree")
    return bool(named) and Path(os.path.normpath(own / str(named))).resolve() == root


def _check_owner(place: GitPlace) -> None:
    """Refuse a checkout of another user, as Git does (CVE-2022-24765).

    Raises:
        InvalidArgument: it is one, and the caller has not said that it is trusted.
    """
    for path in (place.root / ".git", place.root, place.own, place.common):
        owner = path.lstat().st_uid
        if _is_own(owner):
            continue
        if _is_trusted(place.root):
            return
        shown = plain(str(place.root), 200)
        raise InvalidArgument(
            f"cannot check out {shown}: {plain(str(path), 200)} belongs to another user (uid {owner})",
            hint=f"if you trust it: `git config --global --add safe.directory {shlex.quote(shown)}`; "
            "--no-checkout does without",
        )


def _is_own(owner: int) -> bool:
    user = os.geteuid()
    if user != 0:
        return owner == user
    by_sudo = os.environ.get("SUDO_UID", "")
    return owner == 0 or (by_sudo.isdecimal() and owner == int(by_sudo))


def _is_trusted(root: Path) -> bool:
    trusted = False
    for value in own_settings("safe", "directory"):
        if not value:
            trusted = False  # an empty value takes back those before it (git-config(1))
        elif value == "*" or (value.endswith("/*") and root.is_relative_to(value[:-2])):
            trusted = True
        else:
            trusted |= Path(value).expanduser() == root
    return trusted
