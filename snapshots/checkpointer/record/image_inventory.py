"""Whether images are of the form that is judged here, and of a tree in one container's namespaces. Pure.

CRIU reads images of several versions, and makes the namespaces they ask for. What it reads differently from
the judge has not been judged, and for new namespaces it would set up mounts and networks and run tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.snapshots.checkpointer.record import ImageMessages

_VERSION = 2
"""CRTOOLS_IMAGES_V1_1 of CRIU's image.h: two magic numbers, and memory as it is."""
_SHARED = ("pid", "net", "uts", "mnt", "user")
"""Namespaces that a capture and its session have in common, so that both have the same number in images."""
_ZOMBIE = 2


def strange(images: ImageMessages) -> Iterator[str]:
    """Return what cannot be of a session's capture, in sentences without their subject.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    found = images.messages("inventory")
    if len(found) != 1:
        yield "has no inventory of its images"
        return
    head = found[0]
    if int(head.img_version) != _VERSION or not head.fdinfo_per_id or not head.ns_per_id:
        yield "has images of another version"
    if head.compress or head.tcp_close or head.allow_uprobes:
        yield "was captured in a way no session is"
    if head.HasField("plugins_entry") and list(head.plugins_entry.plugins):
        yield "needs a plugin of CRIU"
    for item in images.messages("pstree"):
        yield from _of_process(images, head.root_ids, int(item.pid))


def _of_process(images: ImageMessages, root: Any, pid: int) -> Iterator[str]:
    found = images.messages(f"ids-{pid}")[:1]
    if not found and not _ended(images, pid):
        yield f"does not say in which namespaces process {pid} is"
    for ids in found:
        other = [name for name in _SHARED if getattr(ids, f"{name}_ns_id") != getattr(root, f"{name}_ns_id")]
        if other:
            yield f"wants namespaces of its own for process {pid}: {', '.join(other)}"


def _ended(images: ImageMessages, pid: int) -> bool:
    return any(int(core.tc.task_state) == _ZOMBIE for core in images.messages(f"core-{pid}")[:1])
