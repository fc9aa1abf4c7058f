"""The rights of one user over files: assumed by a thread for a moment, and assigned to new files.

Owns the ids that the kernel checks; does not know the files. The kernel checks a thread's file system ids
and its supplementary groups (credentials(7)); the C library would change the groups of all threads, so the
call is made directly. A file is given to another user by its descriptor: another process can have put a
link in its place.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.pulse.access import reading_as

_SETGROUPS = {"x86_64": 116, "aarch64": 159}.get(os.uname().machine)
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def as_user(account: UserAccount) -> Iterator[None]:
    """Open, make and remove files as that user, in this thread, until the end of the block.

    The block must not await anything: whatever else the loop does would also run as that user.
    """
    if not account.foreign:
        yield
        return
    own = os.getgroups()
    _set_groups(account.groups())
    try:
        with reading_as(account.uid, account.gid):
            yield
    finally:
        _set_groups(own)


def _set_groups(groups: Sequence[int]) -> None:
    """Set the supplementary groups of this thread; without the right to, they stay as they are."""
    if _SETGROUPS is not None:
        array = (ctypes.c_uint32 * len(groups))(*groups)
        _libc.syscall(_SETGROUPS, ctypes.c_long(len(groups)), array)


def give_to_owner(descriptor: int, maker: UserAccount, owner: UserAccount) -> None:
    """Give an open file or folder to its owner, unless its owner made it."""
    if (maker.uid, maker.gid) != (owner.uid, owner.gid):
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        os.fchown(descriptor, owner.uid, owner.gid)
        os.fchmod(
            descriptor, mode & 0o777
        )  # the kernel may clear some of it, but never a set-user-id bit here


def give_folder_to_owner(path: str, maker: UserAccount, owner: UserAccount) -> None:
    """Give a folder to its owner; leave anything else alone."""
    if maker == owner:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        give_to_owner(descriptor, maker, owner)
    finally:
        os.close(descriptor)


def make_owned_folders(path: str, maker: UserAccount, owner: UserAccount) -> None:
    """Make a folder and those above it; the owner gets only the new ones.

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
        give_folder_to_owner(each, maker, owner)
    os.makedirs(path, exist_ok=True)  # noqa: PTH103
