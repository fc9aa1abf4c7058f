"""Looks for Git repositories around the shell of a session, and reads where they stand.

Nothing is run: not Git, whose configuration in a repository may start anything. All is read as the session's
user, and only regular files, up to the bounds of `git_files`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from holdfast.errors import GuestError, HoldfastError, SessionFileError
from holdfast.runtime.api.session_files import located
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.drift import observe_session
from holdfast.runtime.history.repositories import git_files
from holdfast.runtime.history.repositories.repository_state import (
    MOST,
    RepositoriesSeen,
    RepositoryState,
)

if TYPE_CHECKING:
    from holdfast.runtime.api.session_files import SessionFiles

MOST_FOLDERS = 40
"""Folders that are searched below the shell's directory."""
DEEPEST = 2
MOST_TREES = 150
"""Folders that may have a repository."""
_LEFT_OUT = ("node_modules", "__pycache__", "site-packages")
_SYSTEM = ("/dev", "/proc", "/run", "/sys")


def look(
    files: SessionFiles, client: GuestClient, place: str | None = None, known: Iterable[str] = ()
) -> RepositoriesSeen:
    """Return the repositories that contain a folder or are below it, by path.

    Args:
        files: of the session.
        client: of the session, for facts about many files.
        place: the folder; by default the directory of the shell.
        known: working trees that are looked at in any case.
    """
    found: dict[str, RepositoryState] = {}
    if place is None:
        place, _ = located(files, ".")
    for tree in islice(chain(known, _above(place), _below(files, place)), MOST_TREES):
        if tree not in found and len(found) < MOST:
            try:
                state = _state(files, client, tree)
            except (HoldfastError, OSError):
                continue
            if state is not None:
                found[tree] = state
    return RepositoriesSeen(place, tuple(found[tree] for tree in sorted(found)))


def _above(place: str) -> Iterator[str]:
    at = posixpath.normpath(place)
    while at.startswith("/"):
        yield at
        if at == "/":
            return
        at = posixpath.dirname(at)


def _below(files: SessionFiles, place: str) -> Iterator[str]:
    level, listed = [posixpath.normpath(place)], 0
    for _ in range(DEEPEST):
        following: list[str] = []
        for folder in level:
            if listed == MOST_FOLDERS:
                return
            listed += 1
            try:
                content = files.list(folder)
            except (HoldfastError, OSError):
                continue
            following += [
                posixpath.join(folder, each.name)
                for each in content
                if each.kind == "folder" and not each.name.startswith(".") and each.name not in _LEFT_OUT
            ]
        level = [each for each in following if each not in _SYSTEM]
        yield from level


def _state(files: SessionFiles, client: GuestClient, tree: str) -> RepositoryState | None:
    """Return the state of the repository with this working tree; None if it has none."""
    folder = posixpath.join(tree, ".git")
    try:
        kind = files.stat(folder).kind
    except SessionFileError:
        return None
    if kind == "file":
        named = git_files.read_gitdir(_read(files, folder, git_files.MOST_HEAD))
        if named is None:
            return None
        folder = posixpath.normpath(posixpath.join(tree, named))
    head = _read(files, posixpath.join(folder, "HEAD"), git_files.MOST_HEAD)
    reference, commit = git_files.read_head(head)
    if reference is None and commit is None:
        return None
    if reference is not None:
        common = _common(files, folder)
        held = _read(files, posixpath.join(common, reference), git_files.MOST_HEAD)
        commit = git_files.read_commit(held) or git_files.find_packed(
            _read(files, posixpath.join(common, "packed-refs"), git_files.MOST_PACKED), reference
        )
    branch = None if reference is None else reference.removeprefix("refs/heads/")
    return RepositoryState(tree, branch, commit, _dirty(files, client, tree, folder))


def _common(files: SessionFiles, folder: str) -> str:
    """Return the folder that has the references: another one for a worktree."""
    named = _read(files, posixpath.join(folder, "commondir"), git_files.MOST_HEAD)
    text = named.decode("utf-8", "surrogateescape").strip()
    return posixpath.normpath(posixpath.join(folder, text)) if text else folder


def _dirty(files: SessionFiles, client: GuestClient, tree: str, folder: str) -> int | None:
    """Count the tracked files that are gone, or have another size or time than the index says."""
    data = _read(files, posixpath.join(folder, "index"), git_files.MOST_INDEX)
    tracked = git_files.read_index(data) if data else None
    if tracked is None:
        return None
    # Names that are no UTF-8 cannot be asked for; they count as unchanged.
    asked = {posixpath.join(tree, each.path): each for each in tracked if each.path.isprintable()}
    table, _ = observe_session.table(client, [(path, 0) for path in asked], (), 0.0)
    count = 0
    for path, each in asked.items():
        now = table[path]
        same = now.kind in ("f", "l") and now.size % 2**32 == each.size
        count += not (same and now.mtime // 10**9 == each.mtime)
    return count


def _read(files: SessionFiles, path: str, most: int) -> bytes:
    """Return a regular file, at most one byte more than is understood; empty if it cannot be read."""
    try:
        return files.read(path, 0, most + 1) if files.stat(path).kind == "file" else b""
    except (SessionFileError, GuestError):
        return b""
