"""The names visible in the layers below others: a deletion of a different name must not be in a layer.

In a folder that only one layer has, an overlay lists a deletion as if it were a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path

from holdfast.snapshots.checkpointer.layers.file_entry import DELETES, HIDES

_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


class Name(Enum):
    """The entry of a single layer for a name."""

    NOTHING = 0
    DELETION = 1
    FOLDER = 2
    HIDING_FOLDER = 3
    """A folder that hides the names of lower layers in it."""
    FILE = 4


Lookup = Callable[[str], Name]


def shown(paths: Iterable[str], layers: Sequence[Lookup]) -> set[str]:
    """Return the paths visible in layers together, the topmost first."""
    return {path for path in paths if _is_shown(path, layers)}


def _is_shown(path: str, layers: Sequence[Lookup]) -> bool:
    for layer in layers:
        is_last = False
        for prefix in prefixes(path):
            found = layer(prefix)
            if found is Name.NOTHING:
                break
            if found is Name.DELETION:
                return False
            if prefix == path:
                return True
            if found is Name.FILE:
                return False
            is_last |= found is Name.HIDING_FOLDER
        if is_last:
            return False
    return False


def prefixes(path: str) -> Iterator[str]:
    """Yield the folders above a path, the uppermost first, and the path."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)
    yield path


def of_folder(folder: Path) -> Lookup:
    """Look names up in the folder of an engine's layer; a folder precedes the names in it."""

    def lookup(path: str) -> Name:
        place = os.path.join(folder, path)  # noqa: PTH118 - names that are not text
        try:
            found = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return Name.NOTHING
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
            return Name.DELETION
        if not stat.S_ISDIR(found.st_mode):
            return Name.FILE
        for name in _OPAQUE:
            with suppress(OSError):
                if os.getxattr(place, name, follow_symlinks=False) in (b"y", b"x"):
                    return Name.HIDING_FOLDER
        return Name.FOLDER

    return lookup


def of_archive(names: Iterable[tuple[str, bool]], wanted: Iterable[str]) -> Lookup:
    """Look names up in an archive of a layer.

    Args:
        names: the names in the archive, and whether each is a folder.
        wanted: the paths that are asked for later; with the folders above them, no others are remembered.
    """
    asked = {prefix for path in wanted for prefix in prefixes(path)}
    there: dict[str, bool] = {}
    hiding: set[str] = set()
    deleted: set[str] = set()
    for path, is_folder in names:
        above, _, name = path.rpartition("/")
        if name == HIDES:
            hiding.add(above)
        elif name.startswith(DELETES):
            deleted.add(f"{above}/{name[len(DELETES) :]}" if above else name[len(DELETES) :])
        elif path in asked:
            there[path] = is_folder
    deleted &= asked

    def lookup(path: str) -> Name:
        if path not in there:
            # A folder that only hides does not need an entry of its own.
            return Name.DELETION if path in deleted else Name.NOTHING
        if not there[path]:
            return Name.FILE
        return Name.HIDING_FOLDER if path in hiding or path in deleted else Name.FOLDER

    return lookup
