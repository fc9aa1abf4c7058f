"""Images of sessions and of the toolbox that an older version of Holdfast built and nothing needs.

An engine is shared by homes and by versions; so only what is named as ours, is not what this version wants,
is old, and is used by no container of anybody, goes. It is built anew should somebody want it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.images import build

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

KINDS = ("session", "toolbox", "gateway")


def stale(image: Mapping[str, Any], needed: frozenset[str], used: frozenset[str], before: float) -> list[str]:
    """The tags of an image that may go. Pure.

    Args:
        image: as the engine lists it.
        needed: tags that this version or a session of this home wants.
        used: ids and names of images that containers were made from.
        before: Unix seconds; what was made later stays.
    """
    tags = [tag for tag in image.get("RepoTags") or [] if not tag.startswith("<none>")]
    ours = [tag for tag in tags if tag.rpartition(":")[0] in {f"holdfast/{kind}" for kind in KINDS}]
    if len(ours) != len(tags) or image["Id"] in used or used & set(tags) or needed & set(tags):
        return []
    return ours if float(image.get("Created") or time.time()) < before else []


def find(context: Context, older: timedelta) -> Iterator[tuple[str, int]]:
    """Tags that may go, and the bytes of their images."""
    engine = context.engine
    listed = engine.client.api.images(name=None)
    containers = engine.client.api.containers(all=True)
    used = frozenset(str(each[key]) for each in containers for key in ("Image", "ImageID"))
    wanted = {build.reference(kind) for kind in KINDS} | {row.image for row in context.store.sessions()}
    before = time.time() - older.total_seconds()
    for image in listed:
        for tag in stale(image, frozenset(wanted), used, before):
            yield tag, int(image.get("Size") or 0)


def untag(context: Context, ref: str) -> None:
    """Take a name from an image, the image too if it was the last; refused while a container needs it."""
    import docker.errors

    from holdfast.engine import engine_faults

    with engine_faults.translated("remove image"):
        try:
            context.engine.client.api.remove_image(ref)
        except docker.errors.NotFound:
            return
