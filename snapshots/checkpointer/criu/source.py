"""Reads the images of a snapshot: their messages, and a few bytes of the memory in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.record import ImagesUnreadable
from holdfast.snapshots.checkpointer.record.memory import IN_PARENT, PAGE, PRESENT, ImageMemory

_SMALL = ("core-", "files", "ids-", "pstree")


class ImageFolder:
    """The images in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_before: dict[str, list[Any]] = {}

    def messages(self, name: str) -> list[Any]:
        """Yield the messages of an image; none if there is no such image."""
        known = self._read_before.get(name)
        if known is not None:
            return known
        try:
            found = criu_images.read(self._folder / f"{name}.img")[1]
        except OSError as error:
            raise ImagesUnreadable(f"{name}.img cannot be read ({error.strerror})") from error
        # They are described, and judged: both read these.
        if name.startswith(_SMALL):
            self._read_before[name] = found
        return found

    def numbered(self, kind: str) -> list[str]:
        """Return the names of all images of a kind that can occur more than once."""
        return sorted(path.stem for path in self._folder.glob(f"{kind}-*.img"))

    def memory(self, pid: int, start: int, size: int) -> bytes:
        """Up to `size` bytes of a process's memory from `start`, as far as they were captured."""
        head, *maps = self.messages(f"pagemap-{pid}") or [None]
        if head is None:
            return b""
        position = 0
        for one in maps:
            present = bool(one.flags & PRESENT) and not one.flags & IN_PARENT
            pages = one.nr_pages or one.compat_nr_pages
            if one.vaddr <= start < one.vaddr + pages * PAGE:
                if not present:
                    return b""
                size = min(size, one.vaddr + pages * PAGE - start)
                return self._read(f"pages-{head.pages_id}.img", position + start - one.vaddr, size)
            if present:
                position += pages * PAGE
        return b""

    def all_memory(self, pid: int) -> ImageMemory | None:
        """Return the memory of a process, to be searched; None if none of it was captured."""
        head, *maps = self.messages(f"pagemap-{pid}") or [None]
        return ImageMemory(maps, self._folder / f"pages-{head.pages_id}.img") if head is not None else None

    def _read(self, name: str, position: int, size: int) -> bytes:
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(position)
                return file.read(size)
        except (OSError, OverflowError, ValueError):
            return b""
