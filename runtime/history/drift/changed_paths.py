"""The files that changed between two points in time.  Pure.

A table of files combines the engine's list of differences from the container's image with the guest's facts
on each path. Two tables of one container can be compared; tables of different containers are joined by
lineage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Change = Literal["new", "changed", "deleted"]

OF_ENGINE: Mapping[int, Change] = {0: "changed", 1: "new", 2: "deleted"}
"""Kinds in the engine's list of changes."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """One path that differs from the image.

    `kind` is f, d, l (link), o (other), or empty if it does not exist or was not examined. `ctime` and
    `mtime` are in nanoseconds; `owner` is the number of the package it belongs to, or -1.
    """

    change: Change
    kind: str = ""
    size: int = 0
    ctime: int = 0
    mtime: int = 0
    owner: int = -1


Table = Mapping[str, PathEntry]
TICK = 0.01
"""Seconds by which the kernel's stamps can be early: the length of its last tick."""
Key = tuple[str, str, str]
"""A package whatever its version: manager, folder, name."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that changed. `at` is when, in Unix seconds, if known; `by` are numbers of journal entries.

    `owner` is the package it came with, if any; `brought_by` who wrote it from outside of the session.
    """

    path: str
    change: Change
    size: int = 0
    at: float | None = None
    folder: bool = False
    owner: Key | None = None
    by: tuple[int, ...] = ()
    brought_by: str = ""


def compare(
    before: Table,
    now: Table,
    since: float | None = None,
    keys: Sequence[Key] = (),
    old_keys: Sequence[Key] = (),
    restored: float | None = None,
) -> dict[str, FileChange]:
    """Return the changes between two tables of the same container.

    Args:
        before: the earlier table; empty for that of the image.
        now: the later table.
        since: leave out changes known to be before this time (Unix seconds).
        keys: the packages that owners of the later table refer to.
        old_keys: those of the earlier one.
        restored: when the container's programs continued, if it is that of a live restore (Unix seconds).
    """
    found: dict[str, FileChange] = {}
    for path, entry in now.items():
        old = before.get(path)
        if _same(old, entry) or (old is None and _copied_up(entry, restored)):
            continue
        was_there = _existed(old)
        change: Change = "deleted" if entry.change == "deleted" else "changed" if was_there else entry.change
        at = _when(path, entry, now)
        if since is not None and at is not None and at <= since - TICK:
            continue
        found[path] = FileChange(path, change, entry.size, at, entry.kind == "d", _key(entry.owner, keys))
    for path, old in before.items():
        if path not in now and _existed(old):
            at = _parent_time(path, now)
            if since is None or at is None or at > since - TICK:
                found[path] = FileChange(path, "deleted", 0, at, old.kind == "d", _key(old.owner, old_keys))
    return _without_folders(_owned_folders(found, before, old_keys), now)


def join(earlier: Mapping[str, FileChange], later: Mapping[str, FileChange]) -> dict[str, FileChange]:
    """Return the changes over two consecutive spans of time."""
    found = dict(earlier)
    for path, change in later.items():
        old = found.pop(path, None)
        if old is None:
            found[path] = change
        elif old.change == "new" and change.change == "deleted":
            continue
        elif old.change == "new":
            found[path] = replace(change, change="new")
        elif old.change == "deleted" and change.change != "deleted":
            found[path] = replace(change, change="changed")
        else:
            found[path] = change
    return found


def _owned_folders(found: dict[str, FileChange], before: Table, keys: Sequence[Key]) -> dict[str, FileChange]:
    """Attribute a removed folder to a package if all of its files belonged to it."""
    gone = {path for path, one in found.items() if one.folder and one.change == "deleted"}
    owners: dict[str, set[int]] = {}
    for path, entry in before.items():
        above = path if entry.kind != "d" else ""
        while above := above.rpartition("/")[0]:
            if above in gone:
                owners.setdefault(above, set()).add(entry.owner)
    for path, numbers in owners.items():
        if -1 not in numbers:
            found[path] = replace(found[path], owner=_key(min(numbers), keys))
    return found


def _key(owner: int, keys: Sequence[Key]) -> Key | None:
    return keys[owner] if 0 <= owner < len(keys) else None


def _same(old: PathEntry | None, entry: PathEntry) -> bool:
    if old is None:
        return False
    if old.change == "deleted" or entry.change == "deleted":
        return old.change == entry.change
    if entry.kind == "d" and old.kind == "d":
        return True
    return (old.kind, old.ctime, old.size) == (entry.kind, entry.ctime, entry.size)


def _copied_up(entry: PathEntry, restored: float | None) -> bool:
    """Check whether a file is in the layer only because a restore opened it again for writing.

    The overlay then copies it: its content and mtime are those of the snapshot, and its ctime, which programs
    cannot set, is before any of them ran (Linux, Documentation/filesystems/overlayfs.rst, "Non-directories").
    """
    if restored is None or entry.change != "changed" or entry.kind != "f" or not entry.mtime:
        return False
    return entry.mtime < entry.ctime <= (restored + TICK) * 1e9


def _existed(old: PathEntry | None) -> bool:
    return old is not None and old.change != "deleted"


def _when(path: str, entry: PathEntry, now: Table) -> float | None:
    if entry.ctime:
        return entry.ctime / 1e9
    return _parent_time(path, now) if entry.change == "deleted" else None


def _parent_time(path: str, now: Table) -> float | None:
    """Return the latest time at which a name can have been removed from its folder: when the folder
    changed.
    """
    parent = now.get(path.rpartition("/")[0])
    return parent.ctime / 1e9 if parent and parent.ctime else None


def _without_folders(found: dict[str, FileChange], now: Table) -> dict[str, FileChange]:
    """Leave out folders, except removed ones, and new ones that are empty."""
    inhabited = {path.rpartition("/")[0] for path in now}
    inhabited |= {path.rpartition("/")[0] for path in found}
    gone = {path for path, one in found.items() if one.change == "deleted"}
    return {
        path: one
        for path, one in found.items()
        if (not one.folder or one.change == "deleted" or (one.change == "new" and path not in inhabited))
        and not (one.change == "deleted" and _below(path, gone))
    }


def _below(path: str, gone: set[str]) -> bool:
    """Check whether a parent folder was also removed: then the folder suffices."""
    while path := path.rpartition("/")[0]:
        if path in gone:
            return True
    return False


_NOISE = re.compile(
    r"""
    ^/(?: var/lib/holdfast | run/holdfast | opt/holdfast | var/lib/dpkg | var/lib/apt | var/cache
        | var/log/apt | etc/\.pwd\.lock | etc/ld\.so\.cache | proc | sys | dev )(?:/|$)
    | ^/var/log/(?:dpkg|alternatives|faillog|lastlog)
    | ^/tmp/(?:pip-|npm-|tmp\w{8}(?:/|$)|v8-compile-cache)
    | /(?: __pycache__ | \.cache | \.npm/_ | \.pytest_cache | \.mypy_cache | \.ruff_cache
        | \.ipynb_checkpoints | \.ipython/profile_default ) (?:/|$|cacache|logs)
    | /\.(?: bash_history | python_history | lesshst | viminfo | wget-hsts | node_repl_history )$
    | /node_modules/\.(?:package-lock\.json|bin(?:/|$))
    | \.py[co]$ | \.swp$ | ~$
    """,
    re.VERBOSE,
)


def noise(path: str) -> bool:
    """Check whether a path is noise: caches, histories, the package managers' records, our own state."""
    return _NOISE.search(path) is not None


def sift(found: Iterable[FileChange]) -> tuple[list[FileChange], int]:
    """Return the changes without noise, and the amount of noise."""
    every = list(found)
    kept = [one for one in every if not noise(one.path)]
    return kept, len(every) - len(kept)
