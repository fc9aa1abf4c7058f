"""Former states of Git repositories, and their differences from the present ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table

MOST = 20
"""Repositories of a session that are looked at."""
_SHORT = 8


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """The state of one repository.

    Attributes:
        path: its working tree.
        branch: the branch, without `refs/heads/`; None if HEAD is at no branch.
        commit: the commit; None without one.
        dirty: tracked files whose size or time is not that of the index; None if they were not counted.
    """

    path: str
    branch: str | None = None
    commit: str | None = None
    dirty: int | None = None


@dataclass(frozen=True, slots=True)
class RepositoryChange:
    """How a repository changed; `before` is None for a new one, `now` for a removed one."""

    path: str
    before: RepositoryState | None
    now: RepositoryState | None

    @property
    def text(self) -> str:
        """The change in one line."""
        name = f"git {plain(self.path, 200)}:"
        if self.before is None or self.now is None:
            there = self.now or self.before
            assert there is not None
            return f"{name} {'+' if self.before is None else '-'} {_at(there)}"
        said = [f"{_at(self.before)} -> {_at(self.now)}"] if _at(self.before) != _at(self.now) else []
        if self.before.dirty != self.now.dirty:
            said.append(f"files changed since the index: {_count(self.before)} -> {_count(self.now)}")
        return f"{name} {', '.join(said)}"


def changes(
    before: Sequence[RepositoryState], now: Sequence[RepositoryState]
) -> tuple[RepositoryChange, ...]:
    """Return the repositories whose state differs, by path."""
    old, new = ({each.path: each for each in some} for some in (before, now))
    paths = sorted(set(old) | set(new))
    return tuple(
        RepositoryChange(path, old.get(path), new.get(path))
        for path in paths
        if old.get(path) != new.get(path)
    )


@dataclass(frozen=True, slots=True)
class RepositoriesSeen:
    """The repositories that were found around a folder."""

    place: str
    found: tuple[RepositoryState, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, as `parse` reads them."""
        return as_table(self)


def parse(row: object) -> RepositoriesSeen | None:
    """Read what was recorded; None if nothing valid was."""
    if not isinstance(row, dict) or not isinstance(row.get("place"), str):
        return None
    found = row.get("found")
    rows = found[:MOST] if isinstance(found, list) else []
    named = [each for each in rows if isinstance(each, dict) and isinstance(each.get("path"), str)]
    return RepositoriesSeen(row["place"], tuple(map(_state, named)))


def _state(row: Mapping[str, Any]) -> RepositoryState:
    branch, commit, dirty = row.get("branch"), row.get("commit"), row.get("dirty")
    return RepositoryState(
        row["path"],
        branch if isinstance(branch, str) else None,
        commit if isinstance(commit, str) else None,
        dirty if isinstance(dirty, int) else None,
    )


def _at(state: RepositoryState) -> str:
    commit = plain(state.commit[:_SHORT]) if state.commit else "no commit"
    return f"{plain(state.branch, 100) if state.branch else 'no branch'} {commit}"


def _count(state: RepositoryState) -> str:
    return "not counted" if state.dirty is None else str(state.dirty)
