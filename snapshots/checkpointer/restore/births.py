"""Tells CRIU of a tree that it can make, and the guard how to make of it the one that was captured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.criu.source import ImageFolder
from holdfast.snapshots.checkpointer.record import ancestry
from holdfast.snapshots.checkpointer.record.ancestry import Relatives

_ZOMBIE = 2
"""CRIU's task_state of protobuf core.proto."""


def tasks(source: ImageFolder) -> list[Relatives]:
    """Return the processes in images, as they were.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    return [
        Relatives(int(one.pid), int(one.ppid), int(one.sid), int(one.pgid), _ended(source, int(one.pid)))
        for one in source.messages("pstree")
    ]


def prepare(images: Path, source: ImageFolder) -> dict[str, str]:
    """Rewrite the tree in a scratch folder, `source`, if need be; return the births for the guard.

    Images are replaced, not changed: they share their inodes with the kept snapshot.

    Raises:
        Unreadable: they are not images of CRIU.
        OSError: they cannot be written.
    """
    captured = tasks(source)
    plan = ancestry.plan(captured)
    if plan.tasks == captured:
        return {}
    path = images / "pstree.img"
    magic, found = criu_images.read(path)
    known = {int(one.pid): one for one in found}
    path.unlink()
    criu_images.write(path, magic, [_with_parents(known[task.pid], task) for task in plan.tasks])
    return {"HOLDFAST_ADOPTED": ancestry.spelled(plan.births)}


def _with_parents(entry: Any, task: Relatives) -> Any:
    entry.ppid, entry.sid, entry.pgid = task.parent, task.session, task.group
    return entry


def _ended(source: ImageFolder, pid: int) -> bool:
    return any(int(core.tc.task_state) == _ZOMBIE for core in source.messages(f"core-{pid}")[:1])
