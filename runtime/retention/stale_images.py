"""Stale images: built for sessions or the toolbox by an older version of Holdfast, and not needed any more.

Homes and versions share an engine. So an image is removed only if it has a name of ours, this version does
not want it, it is old, and no container uses it. It is built again when it is needed again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.images import build

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.retention.garbage import Garbage

KINDS = ("session", "toolbox", "gateway")


def stale(image: Mapping[str, Any], needed: frozenset[str], used: frozenset[str], before: float) -> list[str]:
    """Return the tags of an image that may be removed. Pure.

    Args:
        image: the engine's listing of it.
        needed: tags that this version or a session of this home wants.
        used: ids and names of images that containers were made from.
        before: Unix seconds; images made later stay.
    """
    tags = [tag for tag in image.get("RepoTags") or [] if not tag.startswith("<none>")]
    ours = [tag for tag in tags if tag.rpartition(":")[0] in {f"holdfast/{kind}" for kind in KINDS}]
    if len(ours) != len(tags) or image["Id"] in used or used & set(tags) or needed & set(tags):
        return []
    return ours if float(image.get("Created") or time.time()) < before else []


def find(context: Context, older: timedelta) -> Iterator[Garbage]:
    """List the tags that may be removed."""
    from holdfast.runtime.retention.garbage import Garbage

    engine = context.engine
    listed = engine.client.api.images(name=None)
    containers = engine.client.api.containers(all=True)
    used = frozenset(str(each[key]) for each in containers for key in ("Image", "ImageID"))
    wanted = {build.reference(kind) for kind in KINDS} | {row.image for row in context.store.sessions()}
    before = time.time() - older.total_seconds()
    for image in listed:
        for tag in stale(image, frozenset(wanted), used, before):
            size = int(image.get("Size") or 0)
            yield Garbage("image", tag, "of an older version", size, partial(untag, engine, tag))


def untag(engine: Engine, ref: str) -> None:
    """Remove a tag, and the image with its last tag; refused while a container needs it."""
    import docker.errors

    from holdfast.engine import engine_faults

    with engine_faults.translated("remove image"):
        try:
            engine.client.api.remove_image(ref)
        except docker.errors.NotFound:
            return
