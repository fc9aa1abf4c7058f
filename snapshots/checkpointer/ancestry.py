"""Which processes cannot be born again into their sessions, by how CRIU goes about it. Pure.

A process is born into the session of the one that forks it, and leaves it only to begin one of its own. CRIU
forks the tree anew and so needs the leader of each session above its members. For children of the root it
makes a stand-in for a leader that is gone (`prepare_pstree_ids` of CRIU's pstree.c); a process that another
subreaper than the root adopted (PR_SET_CHILD_SUBREAPER, prctl(2)) it cannot place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Task(NamedTuple):
    """A process by the session's own numbers: itself, its parent, its session."""

    pid: int
    parent: int
    session: int


def lost(tasks: Iterable[Task]) -> set[int]:
    """The pids of those that cannot be placed; the first of the tasks is the root."""
    every = list(tasks)
    if not every:
        return set()
    root = every[0]
    sessions = {one.pid: one.session for one in every}
    parents = {one.pid: one.parent for one in every[1:]}
    for one in every[1:]:
        if one.parent == root.pid and one.session not in (root.session, one.pid):
            # It becomes a child of its leader, or of a stand-in that has the leader's number.
            if one.session not in parents:
                parents[one.session], sessions[one.session] = root.pid, one.session
            parents[one.pid] = one.session
    born: dict[int, int] = {}
    return {one.pid for one in every[1:] if not _placed(one, root.pid, sessions, parents, born)}


def _placed(
    one: Task, root: int, sessions: dict[int, int], parents: dict[int, int], born: dict[int, int]
) -> bool:
    """Whether its session is its parent's, or an ancestor began it after the next one down was born."""
    if one.session == one.pid:
        return True
    above = parents.get(one.pid, root)
    if sessions.get(above) == one.session:
        return True
    for _ in range(len(sessions)):
        if above == one.session:
            return True
        if born.setdefault(above, one.session) != one.session or above == root:
            return False
        above = parents.get(above, root)
    return False
