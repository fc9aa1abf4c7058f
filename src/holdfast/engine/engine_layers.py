"""The folders of an engine's layers: reported by the engine, or found where containerd keeps them.

File systems that hold them are written to their disks.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.engine import image_store
from holdfast.engine.engine_faults import translated
from holdfast.engine.image_store import ImageStore

if TYPE_CHECKING:
    import docker


def sync(folder: Path) -> None:
    """Wait until the file system of a folder is on its disk (syncfs(2)).

    Who may not open it waits for all file systems (sync(2)). A folder that is not there is passed over.

    Raises:
        OSError: something could not be written.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        os.sync()
        return
    except FileNotFoundError:
        return
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


_ASKED = 3
"""Containers whose mounts are read to find containerd's folder; the first one will usually do."""
_FRESH = 5.0
"""Seconds for which what the engine reports of itself is used again: a snapshot needs it seven times, 10 ms
each. An engine that has restarted with another store is noticed after that."""


class EngineLayers:
    """The layers of one engine, as folders on this host."""

    def __init__(self, client: docker.DockerClient) -> None:
        # This part of the SDK has no types.
        self._api: Any = client.api
        self._reported: tuple[float, dict[str, Any]] | None = None
        self._root: Path | None = None

    def store(self) -> ImageStore:
        """Return the kind of its store."""
        return image_store.kind(self._info())

    def places(self) -> list[Path]:
        """Return all possible folders of its layers, the likeliest first; empty for other stores."""
        info = self._info()
        if image_store.kind(info) is ImageStore.OVERLAY2:
            return [Path(str(info["DockerRootDir"])) / "overlay2"]
        return [image_store.snapshots(root) for root in self._roots()]

    def of_container(self, raw: Mapping[str, Any]) -> list[Path]:
        """Return the folders of an inspected container, its own first; empty if they cannot be known."""
        pid = int((raw.get("State") or {}).get("Pid") or 0)
        return _told(raw) or image_store.folders_of(self._roots([pid] if pid else []), str(raw.get("Id")))

    def of_image(self, raw: Mapping[str, Any]) -> list[Path]:
        """Return the folders of an inspected image, the topmost first; empty if they cannot be known."""
        if (told := _told(raw)) or not (layers := (raw.get("RootFS") or {}).get("Layers")):
            return told
        return image_store.folders_of(self._roots(), [*image_store.chain_ids(layers)][-1])

    def blob(self, digest: str, limit: int) -> bytes | None:
        """Return a small blob of containerd's; None if it cannot be read from here."""
        return image_store.blob(self._roots(), digest, limit)

    def has_blobs(self, digests: Iterable[str]) -> bool:
        """Return whether containerd has all of these blobs, as far as can be seen from here."""
        return image_store.has_blobs(self._roots(), digests)

    def make_durable(self) -> None:
        """Wait until the engine's images are on the disk: the engine does not sync unpacked files.

        An engine whose folders are not on this host is left to its own machine.

        Raises:
            OSError: they cannot be written.
        """
        for folder in {Path(str(self._info().get("DockerRootDir", ""))), *self._roots()}:
            if folder.is_absolute():
                sync(folder)

    def _roots(self, pids: Iterable[int] = ()) -> list[Path]:
        """Return the possible places of containerd's files, the likeliest first; empty for other stores.

        That is certain if this process can read the mounts of a container of the engine: one of those whose
        first processes are given, or another one.
        """
        info = self._info()
        if image_store.kind(info) is not ImageStore.CONTAINERD:
            return []
        if self._root is None:
            asked = map(image_store.root_of, islice(chain(pids, self._pids()), _ASKED))
            self._root = next(filter(None, asked), None)
        usual = image_store.usual_roots(info)
        return usual if self._root is None else [self._root, *(root for root in usual if root != self._root)]

    def _pids(self) -> Iterator[int]:
        import docker.errors

        for each in self._api.containers():
            try:
                yield int(self._api.inspect_container(each["Id"])["State"]["Pid"])
            except docker.errors.NotFound:
                continue

    def _info(self) -> dict[str, Any]:
        now = time.monotonic()
        if self._reported is None or now - self._reported[0] > _FRESH:
            with translated("ask Docker about itself"):
                self._reported = now, dict(self._api.info())
            self._root = None
        return self._reported[1]


def _told(raw: Mapping[str, Any]) -> list[Path]:
    """Return the folders that the engine itself names: overlay2 does."""
    driver = raw.get("GraphDriver") or {}
    data = driver.get("Data") or {}
    if driver.get("Name") != "overlay2" or not data.get("UpperDir"):
        return []
    lowers = [path for path in str(data.get("LowerDir") or "").split(":") if path]
    return [Path(data["UpperDir"]), *map(Path, lowers)]
