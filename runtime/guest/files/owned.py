"""Gives what one user has made to another, for requests that name an owner.

Only what was just made, and by its descriptor: another process may have put a link in its place.
"""

from __future__ import annotations

import os
import stat

from holdfast.runtime.guest.identity.account import UserAccount


def give(descriptor: int, maker: UserAccount, owner: UserAccount) -> None:
    """Give an open file or folder to its owner, unless that is who made it."""
    if (maker.uid, maker.gid) != (owner.uid, owner.gid):
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        os.fchown(descriptor, owner.uid, owner.gid)
        os.fchmod(
            descriptor, mode & 0o777
        )  # the kernel may clear some of it, but never a set-user-id bit here


def give_folder(path: str, maker: UserAccount, owner: UserAccount) -> None:
    """Give a folder to its owner; what is no folder any more stays as it is."""
    if maker == owner:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        give(descriptor, maker, owner)
    finally:
        os.close(descriptor)


def make_folders(path: str, maker: UserAccount, owner: UserAccount) -> None:
    """Make a folder and those above it; only those that were not there are given to the owner.

    Raises:
        OSError: one cannot be made, or something else is there.
    """
    if maker == owner:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
        return
    missing = []
    above = path.rstrip("/") or "/"
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)  # noqa: PTH120
    for each in reversed(missing):
        try:
            os.mkdir(each)  # noqa: PTH102
        except FileExistsError:  # another request was faster, or it is named twice (`a/../a`)
            continue
        give_folder(each, maker, owner)
    os.makedirs(path, exist_ok=True)  # noqa: PTH103
