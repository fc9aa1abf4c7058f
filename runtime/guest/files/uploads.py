"""Files that callers write into the session: part by part next to their destination, then moved in one step.

A caller that loses its connection repeats its last call: a part is written to its place, however often, and
finished writes are remembered by the id their caller chose. A file whose caller never comes back is removed
when many others have begun.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from contextlib import suppress

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.files.as_user import as_user, give_to_owner
from holdfast.runtime.guest.files.file_facts import write_attributes
from holdfast.runtime.guest.identity.account import UserAccount

MAX_OPEN = 64
NEW_MODE = 0o644
MAX_KNOWN_CALLS = 1000


class FileCalls:
    """The ids of the last calls."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, id_: str) -> bool:
        return id_ in self._known

    def add(self, id_: str) -> None:
        """Remember a call."""
        self._known[id_] = None
        while len(self._known) > MAX_KNOWN_CALLS:
            self._known.popitem(last=False)


class NotWritable(Exception):
    """No file can be written at that place. The message says why."""


@dataclass(slots=True)
class IncomingFile:
    """One file in transit: its parts, its destination, its writer, and its owner."""

    part: str
    place: str
    account: UserAccount
    owner: UserAccount


class Uploads:
    """All files on their way, by the id of their caller."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, IncomingFile] = OrderedDict()
        self._done = FileCalls()

    def begin(self, id_: str, path: str, account: UserAccount, owner: UserAccount | None = None) -> None:
        """Make an empty file next to `path`, finally its owner's; a link there is followed.

        Raises:
            NotWritable: something else than a file is there.
            OSError: it cannot be made.
        """
        if id_ in self._open or id_ in self._done:
            return
        while len(self._open) >= MAX_OPEN:
            self.abandon(next(iter(self._open)))
        with as_user(account):
            place = os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114
            _check(place)
            folder = os.path.dirname(place)  # noqa: PTH120
            part = f"{folder}/.{id_[:32]}.part"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            os.close(os.open(part, flags, 0o600))
        self._open[id_] = IncomingFile(part, place, account, owner or account)

    def write(self, id_: str, offset: int, data: bytes) -> None:
        """Write a part of it.

        Raises:
            LookupError: no such file is on its way.
            OSError: it cannot be written.
        """
        if id_ in self._done:
            return
        upload = self._open[id_]
        with as_user(upload.account):
            descriptor = os.open(upload.part, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            view = memoryview(data)
            while view:
                count = os.pwrite(descriptor, view, offset)
                view, offset = view[count:], offset + count
        finally:
            os.close(descriptor)

    def finish(
        self,
        id_: str,
        size: int,
        mode: int | None,
        mtime_ns: int | None,
        attributes: dict[str, str] | None = None,
    ) -> None:
        """Move it to its destination atomically.

        Args:
            id_: the id it was begun with.
            size: its bytes; fewer or more are refused.
            mode: its permissions; those of the file it replaces, else 0644, if None.
            mtime_ns: its time, in nanoseconds since 1970; now if None.
            attributes: its extended attributes.

        Raises:
            LookupError: no such file is on its way.
            NotWritable: parts of it are missing, or something else is in its place by now.
            OSError: it cannot be put there.
        """
        if id_ in self._done:
            return
        upload = self._open[id_]
        with as_user(upload.account):
            replaced = _check(upload.place)
            descriptor = os.open(upload.part, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_size != size:
                    raise NotWritable("parts of it are missing")
                os.fchmod(descriptor, (NEW_MODE if replaced is None else replaced) if mode is None else mode)
                give_to_owner(descriptor, upload.account, upload.owner)
                if attributes:
                    write_attributes(descriptor, attributes)
                if mtime_ns is not None:
                    os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            finally:
                os.close(descriptor)
            os.replace(upload.part, upload.place)  # noqa: PTH105
        del self._open[id_]
        self._done.add(id_)

    def abandon(self, id_: str) -> None:
        """Remove its parts; does nothing if it is unknown."""
        upload = self._open.pop(id_, None)
        if upload is not None:
            with suppress(OSError), as_user(upload.account):
                os.unlink(upload.part)  # noqa: PTH108


def _check(place: str) -> int | None:
    """Check that nothing or a regular file is there; return the mode of the latter."""
    try:
        found = os.lstat(place).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found):
        return stat.S_IMODE(found)
    raise NotWritable("it is a folder" if stat.S_ISDIR(found) else "something other than a file is there")
