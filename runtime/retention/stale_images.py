"""Stale images: built for sessions or the toolbox by an older version of Holdfast, and not needed any more.

Those that were built or loaded for sessions are stale like these, when no session uses them any more.
An image that had the guest added is stale as soon as the image it was made from is gone.

Homes and versions share an engine. So an image is removed only if it has a name of ours, this version does
not want it, it is old, and no container uses it. It is built again when it is needed again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.images import build
from holdfast.runtime.lifecycle.fitting import SOURCE_LABEL
from holdfast.runtime.store.rows import FITTED, PROVIDED

if TYPE_CHECKING:
    from holdfast.engine.engine_images import ListedImage
    from holdfast.runtime.operations.context import Context

KINDS = ("session", "toolbox", "gateway", "portable")
_NAMES = frozenset({f"holdfast/{kind}:" for kind in KINDS} | {FITTED, PROVIDED})


def stale(image: ListedImage, needed: frozenset[str], used: frozenset[str], before: float) -> list[str]:
    """Return the tags of an image that may be removed. Pure.

    Args:
        image: the engine's listing of it.
        needed: tags that this version or a session of this home wants.
        used: ids and names of images that containers were made from.
        before: Unix seconds; images made later stay.
    """
    tags = set(image.tags)
    ours = [tag for tag in image.tags if f"{tag.rpartition(':')[0]}:" in _NAMES]
    if len(ours) != len(tags) or image.id in used or used & tags or needed & tags:
        return []
    return ours if 0 < image.created < before else []


def find(context: Context, older: timedelta) -> Iterator[tuple[str, int]]:
    """Yield the tags that may be removed, with the bytes of their images."""
    engine = context.engine
    listed, used = engine.images.listed(), engine.images_in_use()
    sessions = context.store.sessions()
    wanted = {build.reference(kind) for kind in KINDS}
    wanted |= {name for row in sessions for name in (row.image, row.image_name)}
    now, there = time.time(), {image.id for image in listed}
    for image in listed:
        source = image.labels.get(SOURCE_LABEL)
        before = now if source is not None and source not in there else now - older.total_seconds()
        for tag in stale(image, frozenset(wanted), used, before):
            yield tag, image.size
