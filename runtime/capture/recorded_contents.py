"""Digests of files in the layers of a snapshot's image: their contents at the freeze, whatever came later.

Requires root on this host and layers of overlay2, like `overlay`. The layers were under the session's
control: no link in them is followed. Reading is bounded, and what is skipped is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.record.judged_limits import MAX_FILES
from holdfast.snapshots.record import RecordedFile

MAX_FILE = 2 << 20
MAX_TOTAL = 8 << 20
"""The most bytes read: a restore reads as much again while the session is frozen, about 10 ms."""


def digests(paths: Iterable[str], layers: Sequence[Path], elsewhere: Iterable[str]) -> list[RecordedFile]:
    """Return the digest of each path, or why it has none.

    Args:
        paths: absolute paths in the session, without links.
        layers: the folders of the image's layers, the topmost first; none if unknown.
        elsewhere: folders of the session that are not in the image.
    """
    places = tuple(place.rstrip("/") for place in elsewhere)
    room = MAX_TOTAL
    found: list[RecordedFile] = []
    for path in sorted(set(paths))[:MAX_FILES]:
        if any(path == place or path.startswith(f"{place}/") for place in places):
            found.append(RecordedFile(path=path, skipped="it is not in the snapshot's image"))
            continue
        one = _digest(path, layers, min(MAX_FILE, room))
        if one.digest:
            room -= one.size
        found.append(one)
    return found


def _digest(path: str, layers: Sequence[Path], room: int) -> RecordedFile:
    for layer in layers:
        try:
            size, data = beneath.digest(layer, path, room)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except beneath.FileTooLarge as error:
            return RecordedFile(path=path, size=error.size, skipped="it is too large")
        except OSError as error:
            return RecordedFile(path=path, skipped=f"it cannot be read ({error.strerror or error})")
        return RecordedFile(path=path, size=size, digest=data)
    return RecordedFile(path=path, skipped="it is not in a layer that can be read here")
