"""Paths in a session, as a client reads them.  Pure."""

from __future__ import annotations

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument


def parted(path: str, *, folder: bool) -> tuple[str, str]:
    """Return the folder in which a path is, and its name there.

    Raises:
        InvalidArgument: no file can have that name, and it is not for a folder.
    """
    above, slash, name = (path.rstrip("/") if folder else path).rpartition("/")
    if not folder and name in ("", ".", "..", "~"):
        raise InvalidArgument(
            f"cannot copy to '{plain(path, 200)}': that is a folder", hint="give the name of the file as well"
        )
    return above or slash or ".", name
