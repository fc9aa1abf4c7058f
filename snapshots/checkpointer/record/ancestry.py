"""Recreation of process ancestry in sessions where CRIU alone cannot do it. Pure.

A process is born into the session of the process that forks it, and leaves it only to start one of its own.
CRIU forks the tree again, so it needs the leader of each session above its members. For children of the
root it makes a stand-in for an ended leader (`prepare_pstree_ids` of CRIU's pstree.c). For processes that
another process than the root adopted (PR_SET_CHILD_SUBREAPER, prctl(2)) it gets a changed tree, and the
guard restores the real one (guard_adoption.c): the process that forks such a process may give it to its own
parent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MOST = 256
"""Processes that are adopted (guard_adoption.c)."""


class Relatives(NamedTuple):
    """A process by the session's own numbers: itself, parent, session, group; and whether it has ended."""

    pid: int
    parent: int
    session: int
    group: int = 0
    ended: bool = False


class Birth(NamedTuple):
    """A process that is given to the parent of the process that forks it, by CRIU's order.

    `leader` is a session that has to be started for it by a process that ends immediately; 0: it is born
    into the session of the process that forks it. In it, CRIU gets `session` and `group` where there is
    none any more.
    """

    pid: int
    leader: int = 0
    session: int = 0
    group: int = 0


class TreePlan(NamedTuple):
    """The tree for CRIU, parents first; the guard's part; pids that cannot be placed in this way."""

    tasks: list[Relatives]
    births: list[Birth]
    lost: set[int]


def plan(tasks: Iterable[Relatives]) -> TreePlan:
    """Plan how to make a tree; the first of the tasks is the root."""
    every = list(tasks)
    astray = _unplaced(every)
    if not astray or len(astray) > MOST:
        return TreePlan(every, [], astray)
    known = {one.pid: one for one in every}
    births: list[Birth] = []
    # Ancestors first: an adopter may be within a session that is changed for CRIU.
    for session in dict.fromkeys(one.session for one in every if one.pid in astray):
        orphans = [one for one in every if one.pid in astray and one.session == session]
        if session in known:
            births += _under_leader(known, orphans, known[session])
        else:
            births += _without_leader(known, every, orphans)
    _bury(known, astray - {one.pid for one in births})
    ordered = _parents_first(known, every[0].pid)
    lost = _unplaced(ordered) | {pid for pid in known if pid not in {one.pid for one in ordered}}
    if lost:
        return TreePlan(every, [], lost & astray or astray)
    return TreePlan(ordered, births, set())


def lost(tasks: Iterable[Relatives]) -> set[int]:
    """Return the pids of processes that cannot be placed; the first of the tasks is the root."""
    return plan(tasks).lost


def spelled(births: Iterable[Birth]) -> str:
    """Encode the births for the guard."""
    return " ".join(f"{one.pid}:{one.leader}:{one.session}:{one.group}" for one in births)


def _under_leader(tasks: dict[int, Relatives], orphans: list[Relatives], leader: Relatives) -> list[Birth]:
    """Make the leader fork the processes that its parent adopted.

    A process that ended does not fork; and CRIU has one that ended waited for by the one that forked it.
    """
    fit = [one for one in orphans if one.parent == leader.parent and not one.ended and not leader.ended]
    for one in fit:
        tasks[one.pid] = tasks[one.pid]._replace(parent=leader.pid)
    return [Birth(one.pid) for one in fit]


def _without_leader(
    tasks: dict[int, Relatives], every: list[Relatives], orphans: list[Relatives]
) -> list[Birth]:
    """Make a process that restarts the session fork the first one, and the first one the others."""
    first = next((one for one in orphans if not one.ended), orphans[0])
    session, parent = first.session, first.parent
    others = [one for one in orphans if one is not first and not one.ended]
    # The number must be free, and not be taken for a stand-in, which gets one above all others.
    numbered = max(tasks) > session and all(one.group != session or one.session == session for one in every)
    if not numbered or any(one.parent != parent for one in others) or parent not in tasks:
        return []
    above = tasks[parent]
    for one in every:
        if one.session == session:
            group = above.group if one.group == session else one.group
            tasks[one.pid] = tasks[one.pid]._replace(session=above.session, group=group)
    for one in others:
        tasks[one.pid] = tasks[one.pid]._replace(parent=first.pid)
    return [Birth(first.pid, session, above.session, above.group), *(Birth(one.pid) for one in others)]


def _bury(tasks: dict[int, Relatives], pids: Iterable[int]) -> None:
    """Put ended processes into the session of their parent, which still has to collect them."""
    for one in [tasks[pid] for pid in pids if tasks[pid].ended]:
        if one.parent in tasks:
            above = tasks[one.parent]
            tasks[one.pid] = one._replace(session=above.session, group=above.group)


def _parents_first(tasks: dict[int, Relatives], root: int) -> list[Relatives]:
    below: dict[int, list[Relatives]] = {}
    for one in tasks.values():
        if one.pid != root:
            below.setdefault(one.parent, []).append(one)
    ordered = [tasks[root]]
    for one in ordered:
        ordered += below.get(one.pid, [])
    return ordered


def _unplaced(every: list[Relatives]) -> set[int]:
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
    born: dict[int, tuple[int, bool]] = {}
    return {one.pid for one in every[1:] if not _placed(one, root.pid, sessions, parents, born)}


def _placed(
    one: Relatives,
    root: int,
    sessions: dict[int, int],
    parents: dict[int, int],
    born: dict[int, tuple[int, bool]],
) -> bool:
    """Check whether its session is its parent's, or was started by an ancestor after the next descendant was
    born.

    `born` are the sessions that ancestors must be born into, by their pids, and whether those have a leader.
    """
    if one.session == one.pid:
        return True
    above = parents.get(one.pid, root)
    if sessions.get(above) == one.session:
        return True
    passed: list[int] = []
    found = False
    while above not in passed[-1:] and len(passed) <= len(sessions):
        if above == one.session:
            found = True
            break
        if above in born:
            found = born[above] == (one.session, True)
            break
        passed.append(above)
        if above == root:
            break
        above = parents.get(above, root)
    born.update(dict.fromkeys(passed, (one.session, found)))
    return found
