"""The storage of an engine's layers of images and containers, and its place on this host.

Docker's own store with overlay2, or that of containerd with the snapshotter overlayfs: the default of Docker
29, whose engine names no folders. They are found in containerd's own records, which only root can read here;
without it there is no answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

from holdfast.engine import bolt
from holdfast.procfs import overlay_mount

_SNAPSHOTTER = "io.containerd.snapshotter.v1.overlayfs"
_CONTENT = "io.containerd.content.v1.content/blobs/sha256"
SYSTEM = Path("/var/lib/containerd")
_SYSTEM_SOCKETS = ("/run/containerd/", "/var/run/containerd/")
_MOST_LAYERS = 512


class ImageStore(Enum):
    """A kind of store. The layers of OTHER are never read here."""

    OVERLAY2 = "overlay2"
    CONTAINERD = "containerd"
    OTHER = "other"


def kind(info: Mapping[str, Any]) -> ImageStore:
    """Return the kind of store of an engine with this description (`docker info`)."""
    status = dict(item for item in info.get("DriverStatus") or [] if len(item) == 2)
    containerd = "containerd" in str(status.get("driver-type", ""))
    names = {("overlay2", False): ImageStore.OVERLAY2, ("overlayfs", True): ImageStore.CONTAINERD}
    return names.get((str(info.get("Driver")), containerd), ImageStore.OTHER)


def root_of(pid: int) -> Path | None:
    """Return where containerd keeps a container's files, by its first process; None if that is unknown."""
    with suppress(OSError):
        folders = overlay_mount.folders(Path(f"/proc/{pid}/mountinfo").read_bytes())
        if folders is not None and Path(folders[0]).parts[-4:-2] == (_SNAPSHOTTER, "snapshots"):
            return Path(folders[0]).parents[3]
    return None


def usual_roots(info: Mapping[str, Any]) -> list[Path]:
    """Return where containerd may keep its files, the likeliest first.

    Args:
        info: the output of `docker info`.
    """
    # Docker starts one of its own, unless the system has one, which newer versions name.
    usual = [Path(str(info.get("DockerRootDir", "/var/lib/docker"))) / "containerd/daemon", SYSTEM]
    if is_systems(info):
        usual.reverse()
    return usual


def is_systems(info: Mapping[str, Any]) -> bool:
    """Check whether the engine uses the system's containerd, not one of its own; newer engines report it."""
    return str((info.get("Containerd") or {}).get("Address", "")).startswith(_SYSTEM_SOCKETS)


def snapshots(root: Path) -> Path:
    """Return the folder that has all layers of containerd."""
    return root / _SNAPSHOTTER / "snapshots"


def folders_of(candidates: Iterable[Path], name: str) -> list[Path]:
    """Return the folders of the layers of a container (its id) or an image (its chain id), the topmost first.

    None at all if this process cannot read containerd's records.
    """
    for root in candidates:
        with suppress(OSError, bolt.BoltUnreadable):
            records = bolt.read(root / _SNAPSHOTTER / "metadata.db", b"v1", b"snapshots")
            if found := list(_chain(records, name)):
                return [snapshots(root) / str(number) / "fs" for number in found]
    return []


def blob(candidates: Iterable[Path], digest: str, limit: int) -> bytes | None:
    """Return a small blob that containerd keeps; None if it is missing or cannot be read from here."""
    for root in candidates:
        with suppress(OSError), (root / _CONTENT / digest.removeprefix("sha256:")).open("rb") as file:
            data = file.read(limit)
            if f"sha256:{hashlib.sha256(data).hexdigest()}" == digest:
                return data
    return None


def has_blobs(candidates: Iterable[Path], digests: Iterable[str]) -> bool:
    """Return whether containerd still keeps all of these blobs, as far as this process can see."""
    wanted = {digest.removeprefix("sha256:") for digest in digests}
    seen = []
    for root in candidates:
        with suppress(OSError):
            seen.append({path.name for path in (root / _CONTENT).iterdir()})
    return not seen or any(wanted <= there for there in seen)


def chain_ids(layers: Sequence[str]) -> Iterator[str]:
    """Return the engine's name for each layer together with all below it (image-spec, config.md)."""
    chain = ""
    for layer in layers:
        text = f"{chain} {layer}".encode()
        chain = f"sha256:{hashlib.sha256(text).hexdigest()}" if chain else layer
        yield chain


def _chain(records: Mapping[bytes, Mapping[bytes, bytes]], name: str) -> Iterator[int]:
    # A key is `namespace/number/name`; the numbers are containerd's, and different in each store.
    key = next((key for key in records if key.rpartition(b"/")[2] == name.encode()), None)
    for _ in range(_MOST_LAYERS):
        if key is None:
            return
        record = records.get(key)
        if record is None or b"id" not in record:
            raise bolt.BoltUnreadable("a layer is not recorded")
        yield _number(record[b"id"])
        key = record.get(b"parent") or None
    raise bolt.BoltUnreadable("there are too many layers")


def _number(data: bytes) -> int:
    """Return a number as Go writes it (encoding/binary, Uvarint)."""
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data))
