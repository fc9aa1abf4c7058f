"""The checkpoints of a task: the next label, the snapshot to return to, and the changes since then.

It decides, and takes or restores no snapshot. Beside a snapshot is kept where the Git repositories around
the shell stand. No program is run to find that: not Git, whose configuration in a repository can start
anything. All is read as the session's user, and only regular files, up to the bounds of `git_files`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count, islice
from typing import TYPE_CHECKING

from holdfast.errors import GuestError, HoldfastError, InvalidArgument, SessionError, SessionFileError
from holdfast.runtime.api.session_files import located
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.drift import observe_session
from holdfast.runtime.history.lineage import family
from holdfast.runtime.history.repositories import git_files, repository_state
from holdfast.runtime.history.repositories.repository_state import MOST, RepositoriesSeen, RepositoryState

if TYPE_CHECKING:
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.api.session_insight import SessionInsight
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.history.repositories.repository_state import RepositoryChange
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store
    from holdfast.runtime.task.task_record import TaskRecord


MOST_FOLDERS = 40
"""Folders that are searched below the shell's directory."""
DEEPEST = 2
MOST_TREES = 150
"""Folders that can contain a repository."""
_LEFT_OUT = ("node_modules", "__pycache__", "site-packages")
_SYSTEM = ("/dev", "/proc", "/run", "/sys")


def look_at_repositories(
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
    """Return the folder of the references, which is a different one for a worktree."""
    named = _read(files, posixpath.join(folder, "commondir"), git_files.MOST_HEAD)
    text = named.decode("utf-8", "surrogateescape").strip()
    return posixpath.normpath(posixpath.join(folder, text)) if text else folder


def _dirty(files: SessionFiles, client: GuestClient, tree: str, folder: str) -> int | None:
    """Count the tracked files that are missing, or whose size or time differs from the index."""
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
    """Return a regular file, cut one byte above the limit; empty if it cannot be read."""
    try:
        return files.read(path, 0, most + 1) if files.stat(path).kind == "file" else b""
    except (SessionFileError, GuestError):
        return b""


LONGEST_STEM = 50
"""Characters of a session's name in the label of a checkpoint, so that the number has room."""


def free_label(store: Store, session: str, first: int) -> str:
    """Return a label for the next checkpoint, with a number from `first` on.

    After a rewind the revisions that follow have had their checkpoints.
    """
    taken = {row.label for row in store.snapshots(pending=True)}
    names = (f"{session[:LONGEST_STEM]}-{number}" for number in count(first))
    return next(name for name in names if name not in taken)


def to_return_to(store: Store, session: SessionRow, record: TaskRecord) -> str:
    """Return the snapshot from which a dead session can continue its task.

    The checkpoint's snapshot can have been removed, never taken, or be another session's, whose record was
    imported: then it is the session's last.

    Raises:
        SessionError: there is none.
    """
    chosen = record.checkpoint.snapshot if record.checkpoint is not None else None
    snapshots = store.snapshots()
    if any(row.name == chosen and family.includes(session, row, snapshots) for row in snapshots):
        return str(chosen)
    latest = store.latest_snapshot(session.id)
    if latest is None:
        raise SessionError(
            f"cannot resume the task of session {session.name}: it is dead and was never captured",
            hint="`holdfast task show` has its record; `task import` it into another session",
        )
    return latest.id


def drift(insight: SessionInsight, record: TaskRecord) -> Drift | None:
    """Return the changes in a session since the checkpoint, or else since the change of the record.

    None if that cannot be known, for instance because the snapshot has no baseline.
    """
    age = int((datetime.now(UTC) - record.updated).total_seconds()) + 1
    checkpoint = record.checkpoint.snapshot if record.checkpoint is not None else None
    for since in (checkpoint, f"{age}s"):
        with suppress(InvalidArgument, GuestError, SessionError):
            if since is not None:
                return insight.drift(since)
    return None


def repositories(
    context: Context, files: SessionFiles, session_id: str, before: RepositoriesSeen | None = None
) -> RepositoriesSeen | None:
    """Return where the Git repositories of a session stand, around the shell or where others were seen
    before; None if it does not answer.
    """
    client = GuestClient(context.home.run_dir(session_id))
    place, found = (None, ()) if before is None else (before.place, before.found)
    try:
        return look_at_repositories(files, client, place, [each.path for each in found])
    except (HoldfastError, OSError):
        return None


def moved_repositories(
    context: Context, files: SessionFiles, session_id: str, record: TaskRecord
) -> tuple[RepositoryChange, ...]:
    """Return the repositories whose state differs from the checkpoint's; empty if that is not known."""
    if record.checkpoint is None:
        return ()
    label = record.checkpoint.snapshot
    row = next((row for row in context.store.snapshots() if label in (row.label, row.id)), None)
    before = None if row is None else repository_state.parse(row.details.repositories)
    now = None if before is None else repositories(context, files, session_id, before)
    return () if before is None or now is None else repository_state.changes(before.found, now.found)
