"""The folders of layers of one engine: asked of it, or found where containerd keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.engine import filesystem_sync, image_store
from holdfast.engine.engine_faults import translated
from holdfast.engine.image_store import ImageStore

if TYPE_CHECKING:
    import docker

_ASKED = 3
"""Containers whose mounts are read to find containerd's folder; the first one will usually do."""


class EngineLayers:
    """The layers of one engine, as folders on this host."""

    def __init__(self, client: docker.DockerClient) -> None:
        # This part of the SDK has no types.
        self._api: Any = client.api

    def store(self) -> ImageStore:
        """Return the kind of store it has."""
        return image_store.kind(self._info())

    def places(self) -> list[Path]:
        """Return the folders that all its layers may be in, the likeliest first; none for other stores."""
        info = self._info()
        if image_store.kind(info) is ImageStore.OVERLAY2:
            return [Path(str(info["DockerRootDir"])) / "overlay2"]
        return [image_store.snapshots(root) for root in self._roots(info)]

    def of_container(self, raw: Mapping[str, Any]) -> list[Path]:
        """Return the folders of an inspected container, its own first; none where they cannot be known."""
        return _told(raw) or self._found(str(raw.get("Id")))

    def of_image(self, raw: Mapping[str, Any]) -> list[Path]:
        """Return the folders of an inspected image, the topmost first; none where they cannot be known."""
        layers = (raw.get("RootFS") or {}).get("Layers") or []
        return _told(raw) or (self._found([*image_store.chain_ids(layers)][-1]) if layers else [])

    def blob(self, digest: str, limit: int) -> bytes | None:
        """Return a small blob of containerd's; None if it cannot be read from here."""
        return image_store.blob(self._roots(self._info()), digest, limit)

    def has_blobs(self, digests: Iterable[str]) -> bool:
        """Return whether containerd has all of these blobs, as far as can be seen from here."""
        return image_store.has_blobs(self._roots(self._info()), digests)

    def make_durable(self) -> None:
        """Wait until the engine's images are on the disk: it does not sync the files that it unpacks.

        An engine whose folders are not on this host is left to its own machine.

        Raises:
            OSError: they cannot be written.
        """
        info = self._info()
        for folder in {Path(str(info.get("DockerRootDir", ""))), *self._roots(info)}:
            if folder.is_absolute():
                filesystem_sync.sync(folder)

    def _found(self, name: str) -> list[Path]:
        return image_store.folders_of(self._roots(self._info()), name)

    def _roots(self, info: Mapping[str, Any]) -> list[Path]:
        if image_store.kind(info) is not ImageStore.CONTAINERD:
            return []
        return image_store.roots(info, islice(self._pids(), _ASKED))

    def _pids(self) -> Iterator[int]:
        import docker.errors

        for each in self._api.containers():
            try:
                yield int(self._api.inspect_container(each["Id"])["State"]["Pid"])
            except docker.errors.NotFound:
                continue

    def _info(self) -> dict[str, Any]:
        with translated("ask Docker about itself"):
            return dict(self._api.info())


def _told(raw: Mapping[str, Any]) -> list[Path]:
    """Return the folders that the engine itself names: overlay2 does."""
    driver = raw.get("GraphDriver") or {}
    data = driver.get("Data") or {}
    if driver.get("Name") != "overlay2" or not data.get("UpperDir"):
        return []
    lowers = [path for path in str(data.get("LowerDir") or "").split(":") if path]
    return [Path(data["UpperDir"]), *map(Path, lowers)]
