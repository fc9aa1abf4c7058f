"""Images that were not made for sessions are fitted: the portable guest is added, as one layer on top.

Its archive begins with the image's own folder /opt. It is kept in a home's cache: an engine takes seconds to
give it again.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import os
import secrets
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import locks
from holdfast.errors import ImageError
from holdfast.images import build
from holdfast.runtime.sessions import image_settings
from holdfast.runtime.store.rows import FITTED
from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.layer import image
from holdfast.snapshots.layer.archive import NewLayer
from holdfast.snapshots.layer.oci import KnownBlobs

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.engine.engine import Engine
    from holdfast.runtime.operations.context import Context


GUEST_LABEL = "holdfast.guest"
"""Programs of images that a session can run on: our own, images made from it, and fitted ones."""
SOURCE_LABEL = "holdfast.fitted-from"
"""The id of the image that was fitted."""
_LEFT_OUT = ("Volumes", "Healthcheck", "OnBuild")
FOLDER = "opt"
_PLACE = "opt/holdfast"
_PIECE = 1 << 20
_BLOCK = 1 << 20
_PREFIX = "portable-"


def has_guest(config: Mapping[str, Any]) -> bool:
    """Return whether an image with this configuration was made for sessions."""
    return GUEST_LABEL in (config.get("Labels") or {})


def fit(context: Context, name: str, found: Mapping[str, Any]) -> str:
    """Return the name of an image with the files of a different image, and the portable guest.

    Args:
        context: the context of the call.
        name: the caller's name for the image, for messages.
        found: the engine's description of it.

    Raises:
        ImageError: it is for other machines, does not have files, or the engine cannot add a layer to it.
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
        raise ImageError(f"cannot use image {name}: it does not contain files")


def _add(context: Context, found: Mapping[str, Any], portable: str, fitted: str) -> None:
    engine, identity = context.engine, str(found["Id"])
    below = image.below(engine, identity, KnownBlobs(context.home.root / "cache" / "blobs.json"))
    layer = portable_archive(engine, context.home, portable)
    labels = {GUEST_LABEL: portable, SOURCE_LABEL: identity}
    if below is None:
        _commit(context, found, layer, fitted, labels)
        return
    added = PortableLayer(layer, _folder(context, identity))
    config = {key: value for key, value in below.config.items() if key not in _LEFT_OUT}
    kept = {**labels, image.BASE_LABEL: str(len(below.layers) + 1)}
    image.add(engine, replace(below, config=config), added, fitted, kept)


def _commit(
    context: Context, found: Mapping[str, Any], layer: Path, fitted: str, labels: Mapping[str, str]
) -> None:
    """Add the layer by a container, where the image store does not accept layers."""
    image_settings.check(fitted, found["Config"] or {})
    container = _container(context, str(found["Id"]))
    try:
        with layer.open("rb") as archive:
            context.engine.files.unpack(container, "/", archive, "add the guest to the image")
        context.engine.commit(container, fitted, labels)
    finally:
        context.engine.kill_remove(container)


def _folder(context: Context, identity: str) -> tarfile.TarInfo | None:
    """Return the entry of the image's folder for the guest; None if it lacks that folder."""
    container = _container(context, identity)
    try:
        return context.engine.files.entry(container, f"/{FOLDER}")
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


class PortableLayer(NewLayer):
    """A layer with the portable guest."""

    def __init__(self, archive: Path, above: tarfile.TarInfo | None) -> None:
        """Begin.

        Args:
            archive: the layer of the portable guest, as `take` leaves it.
            above: the folder /opt of the image below, if it has one.

        Raises:
            ImageError: that is not a folder.
            OSError: the archive cannot be read.
        """
        super().__init__()
        if above is not None and not above.isdir():
            raise ImageError("cannot add the guest to the image: its /opt is not a folder")
        self._archive = archive
        with tarfile.open(archive) as members:
            own, place, first = members.next(), members.next(), members.next()
        if own is None or place is None or first is None or (own.name, place.name) != (FOLDER, _PLACE):
            raise ImageError("cannot add the guest to the image: its layer has an unexpected form")
        folder = copy.copy(above or own)
        folder.name, folder.mode = FOLDER, folder.mode | 0o111  # every user has to pass through it
        # What the image has in that place is not seen: it could be another guest.
        opaque = tarfile.TarInfo(f"{_PLACE}/{file_entry.HIDES}")
        self._head = b"".join(each.tobuf(tarfile.PAX_FORMAT) for each in (folder, place, opaque))
        self._rest = first.offset
        self.size = len(self._head) + archive.stat().st_size - self._rest

    def _pieces(self) -> Iterator[bytes]:
        yield self._head
        with self._archive.open("rb") as file:
            file.seek(self._rest)
            while piece := file.read(_PIECE):
                yield piece


def take_layer(saved: Path, layer: Path, diff_id: str) -> None:
    """Take the only layer out of a saved image, as `docker save` of any version writes it.

    Args:
        saved: the archive with the image.
        layer: the archive with the layer, which is written.
        diff_id: the digest of the layer.

    Raises:
        ImageError: it is not in there.
        OSError: one cannot be read, or the other cannot be written.
    """
    with tarfile.open(saved) as archive:
        listed = archive.extractfile("manifest.json")
        assert listed
        member = archive.extractfile(json.load(listed)[0]["Layers"][0])
        assert member
        zipped = member.read(2) == b"\x1f\x8b"
        member.seek(0)
        with layer.open("wb") as target, gzip.open(member) if zipped else member as source:
            shutil.copyfileobj(source, target, _PIECE)
    with layer.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if f"sha256:{found}" != diff_id:
        layer.unlink()
        raise ImageError("cannot add the guest to the image: the engine returned a different layer")


def portable_archive(engine: Engine, home: Home, portable: str) -> Path:
    """Return the archive of the portable guest's layer, from the cache or else from the engine.

    Args:
        engine: the engine that has the image.
        home: the home with the cache.
        portable: the name of the image.

    Raises:
        ImageError: the engine does not have the image, or returned a different layer.
        EngineError: the engine refuses.
        OSError: the archive cannot be written.
    """
    (digest,) = engine.images.described(portable)["RootFS"]["Layers"]
    kept = _cache(home) / f"{_PREFIX}{portable.rpartition(':')[2]}.tar"
    if _is(kept, digest):
        with suppress(OSError):
            os.utime(kept)  # see `unused`
        return kept
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.staging) as folder:
        saved, layer = Path(folder, "image"), Path(folder, "layer")
        with saved.open("wb") as file, closing(engine.images.save(portable, _BLOCK)) as pieces:
            file.writelines(pieces)
        take_layer(saved, layer, digest)
        layer.replace(kept)
    return kept


def unused_archives(home: Home, seconds: float) -> Iterator[Path]:
    """Yield the archives that have not been used for this many seconds."""
    for path in sorted(_cache(home).glob(f"{_PREFIX}*.tar")):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > seconds:
                yield path


def _cache(home: Home) -> Path:
    return home.root / "cache"


def _is(path: Path, digest: str) -> bool:
    """Check whether a file is there, and has this digest."""
    with suppress(OSError), path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" == digest
    return False
