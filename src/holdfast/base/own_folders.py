"""Folders that Holdfast writes outside of its home, marked so that they are never taken for input.

A folder with captures inside a project would otherwise go into the next session with the project's files,
and with it the memory, and so the secrets, of earlier programs. A home inside a project would as well.
"""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

TAG = "HOLDFAST.TAG"
BUNDLE = ".holdfast"
"""How the names of bundles end."""
WHY = "Holdfast wrote it"
_TEXT = """Holdfast writes what it captured into this folder, and leaves the folder out when it copies
files into a session. Without this file it would be copied like any other.
"""
_OF_A_HOME = "holdfast.db"


def make(folder: Path) -> None:
    """Make a folder with its parents, and mark it; a folder that is not empty is not marked.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with os.scandir(folder) as entries:
        if next(entries, None) is not None:
            return  # it may be a project of its own
    (folder / TAG).write_text(_TEXT)
    (folder / ".gitignore").write_text("*\n")


def is_own(folder: str | Path) -> bool:
    """Return whether a folder is marked, or a home."""
    with suppress(OSError):
        return any(os.path.isfile(os.path.join(folder, name)) for name in (TAG, _OF_A_HOME))  # noqa: PTH113, PTH118
    return False
