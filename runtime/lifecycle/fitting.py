"""Images that were not made for sessions are fitted: the portable guest is added, as one layer on top.

An image is fitted once for each of its ids, under a name that all homes share. Of its settings, those that a
session must not have are left out: volumes, whose contents are in no snapshot, a health check, and triggers.
"""

from __future__ import annotations

import hashlib
import secrets
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.base import locks
from holdfast.errors import ImageError
from holdfast.images import build
from holdfast.runtime.lifecycle import portable_archive, portable_layer
from holdfast.runtime.sessions import image_settings
from holdfast.runtime.store.rows import FITTED
from holdfast.snapshots.layer import image
from holdfast.snapshots.layer.oci import KnownBlobs

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.engine import Engine
    from holdfast.runtime.operations.context import Context

GUEST_LABEL = "holdfast.guest"
"""What images have that a session can run on: our own, those made from it, and fitted ones."""
SOURCE_LABEL = "holdfast.fitted-from"
"""The id of the image that was fitted."""
_LEFT_OUT = ("Volumes", "Healthcheck", "OnBuild")


def has_guest(config: Mapping[str, Any]) -> bool:
    """Return whether an image with this configuration was made for sessions."""
    return GUEST_LABEL in (config.get("Labels") or {})


def fit(context: Context, name: str, found: Mapping[str, Any]) -> str:
    """Return the name of an image with the files of another one, and the portable guest.

    Args:
        context: the context of the call.
        name: what the caller calls the image, for messages.
        found: the engine's description of it.

    Raises:
        ImageError: it is for other machines, it has no files, or the engine cannot add a layer to it.
        EngineError: the engine refuses.
    """
    engine = context.engine
    _check(engine, name, found)
    portable = build.ensure(engine.images, "portable", context.progress)
    words = f"{found['Id']}\0{portable}"
    fitted = f"{FITTED}{hashlib.sha256(words.encode()).hexdigest()[:12]}"
    if engine.images.exists(fitted):
        return fitted
    with locks.whole_file(context.home.root / "fitting.lock"):
        if not engine.images.exists(fitted):
            context.progress(f"adding the guest to {name}, once for this image")
            _add(context, found, portable, fitted)
    return fitted


def _check(engine: Engine, name: str, found: Mapping[str, Any]) -> None:
    platform = f"{found.get('Os')}/{found.get('Architecture')}"
    if platform != engine.platform:
        raise ImageError(
            f"cannot use image {name}: it is for {platform}, and this engine's machine is {engine.platform}",
            hint=f"pull or build it for this machine (--platform {engine.platform})",
        )
    if not found["RootFS"].get("Layers"):
        raise ImageError(f"cannot use image {name}: it has no files")


def _add(context: Context, found: Mapping[str, Any], portable: str, fitted: str) -> None:
    engine, identity = context.engine, str(found["Id"])
    below = image.below(engine, identity, KnownBlobs(context.home.root / "cache" / "blobs.json"))
    layer = portable_archive.obtain(engine, context.home, portable)
    labels = {GUEST_LABEL: portable, SOURCE_LABEL: identity}
    if below is None:
        _commit(context, found, layer, fitted, labels)
        return
    added = portable_layer.PortableLayer(layer, _folder(context, identity))
    config = {key: value for key, value in below.config.items() if key not in _LEFT_OUT}
    kept = {**labels, image.BASE_LABEL: str(len(below.layers) + 1)}
    image.add(engine, replace(below, config=config), added, fitted, kept)


def _commit(
    context: Context, found: Mapping[str, Any], layer: Path, fitted: str, labels: Mapping[str, str]
) -> None:
    """Add the layer by a container, where the store of images takes no layers."""
    image_settings.check(fitted, found["Config"] or {})
    container = _container(context, str(found["Id"]))
    try:
        with layer.open("rb") as archive:
            context.engine.files.unpack(container, "/", archive, "add the guest to the image")
        context.engine.commit(container, fitted, labels)
    finally:
        context.engine.kill_remove(container)


def _folder(context: Context, identity: str) -> tarfile.TarInfo | None:
    """Return the entry of the image's folder for the guest; None if it has no such folder."""
    container = _container(context, identity)
    try:
        return context.engine.files.entry(container, f"/{portable_layer.FOLDER}")
    finally:
        context.engine.kill_remove(container)


def _container(context: Context, identity: str) -> str:
    """Create a container that is never started, to see an image's files."""
    return context.engine.create_session_container(
        image=identity,
        name=f"holdfast-fitting-{secrets.token_hex(6)}",
        command=["-"],
        network_mode="none",
        labels={"holdfast.home": context.home.digest, "holdfast.role": "fitting"},
    )
