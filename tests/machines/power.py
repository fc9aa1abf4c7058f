"""A disk that keeps what it would hold if power were lost at an instant.

A file system in a file on a btrfs: a clone of that file (FICLONE) holds the data that the file system has
sent to its device, and none of the page cache above it. A clone that is mounted replays its journal, as
after a boot. Does not know Docker or Holdfast. Needs root, `mkfs.btrfs` and the `mkfs` of the file system.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import TracebackType

from tests.machines import loop_disk

FICLONE = 0x40049409
"""ioctl_ficlone(2): the target shares all extents of the source."""
OUTER_BYTES = 12 << 30
BYTES = 8 << 30


class PowerDisk:
    """A disk mounted at `point`, below a folder of its own that is removed with it."""

    def __init__(self, root: Path, file_system: str) -> None:
        self._file_system = file_system
        self._host = root / "host.img"
        self._outer = root / "outer"
        self.point = root / "disk"
        self._image = self._outer / "disk.img"
        self._mounted: list[Path] = []
        self._outer.mkdir()
        self.point.mkdir()
        try:
            loop_disk.make(self._host, "btrfs", OUTER_BYTES)
            self._mount(self._host, self._outer, "btrfs")
            loop_disk.make(self._image, file_system, BYTES)
            self.start(self._image)
        except BaseException:
            self.end()
            raise

    def cut(self, name: str) -> Path:
        """Keep what the disk holds at this instant; return the file with it, for `start`."""
        kept = self._outer / f"{name}.img"
        with self._image.open("rb") as source, kept.open("xb") as target:
            fcntl.ioctl(target, FICLONE, source.fileno())
        return kept

    def start(self, kept: Path) -> None:
        """Mount a disk in the present one's place, which is removed; its journal is replayed."""
        if self.point in self._mounted:
            self._unmount(self.point)
            self._image.unlink()
        self._mount(kept, self.point, self._file_system)
        self._image = kept

    def end(self) -> None:
        """Unmount everything and remove the files."""
        for point in reversed(list(self._mounted)):
            # Namespaces that others have made meanwhile may have copies of the mounts.
            loop_disk.run("umount", "--lazy", str(point))
            self._mounted.remove(point)
        self._host.unlink(missing_ok=True)

    def _mount(self, image: Path, point: Path, file_system: str) -> None:
        loop_disk.mount(image, point, file_system)
        self._mounted.append(point)

    def _unmount(self, point: Path) -> None:
        loop_disk.run("umount", str(point))
        self._mounted.remove(point)

    def __enter__(self) -> PowerDisk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
