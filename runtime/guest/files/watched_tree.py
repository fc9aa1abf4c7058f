"""The names in a folder that have possibly changed, and their present entries.

The kernel's events tell where to look; the present entry is looked up when they are read. So whatever order
they arrive in, the last look at a name is later than its last change. A folder is watched before its
content is read. Paths below the root are relative to it, "" is the root. Owns the watches and the inotify
instance; does not know clients.

The kernel limits the instances and watches of a user (inotify(7)), and root of all sessions and of the host
is one user. An instance of ours is counted for a user that nothing else is: the effective one of the thread
that makes it. So other sessions can take neither from it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.files import file_facts
from holdfast.runtime.guest.files.as_user import as_user
from holdfast.runtime.guest.identity.account import UserAccount

MODIFY = 0x2
ATTRIB = 0x4
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000
IGNORED = 0x8000
ISDIR = 0x40000000
"""Bits of a mask; inotify(7), and linux/inotify.h for their numbers."""
_HEAD = struct.Struct("=iIII")
_ONLY_FOLDERS, _NOT_UNLINKED = 0x01000000, 0x04000000
_WANTED = (
    (MODIFY | ATTRIB | MOVED_FROM | MOVED_TO)
    | (CREATE | DELETE | DELETE_SELF | MOVE_SELF)
    | (_ONLY_FOLDERS | _NOT_UNLINKED)
)
_READ = 64 << 10
"""Bytes of events in one read: about two thousand."""
_LIMITS = Path("/proc/sys/fs/inotify")
_SETRESUID = {"x86_64": 117, "aarch64": 147}.get(os.uname().machine)
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 1, 2, 3, 4
_FIRST_USER = 1 << 30
_SAME = ctypes.c_long(-1)
_libc = ctypes.CDLL(None, use_errno=True)


class RawEvent(NamedTuple):
    """One event: the number of its watch, its mask, and the name in the watched folder.

    Without a name it concerns the folder itself; names that are not UTF-8 have lone surrogates.
    """

    watch: int
    mask: int
    name: str


def parse(data: bytes) -> Iterator[RawEvent]:
    """Yield the events of one read, which are always complete."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + length].split(b"\0", 1)[0]
        at += length
        yield RawEvent(watch, mask, os.fsdecode(name))


class WatchLimit(OSError):
    """The limit of watches is reached. The message names it."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ENOSPC, why)


class InotifyQueue:
    """A queue of events; to be closed."""

    def __init__(self) -> None:
        """Make one.

        Raises:
            WatchLimit: the user has as many as the kernel allows.
            OSError: it cannot be made.
        """
        with _as_nobody_else():
            self.descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise _error("instances", errno.EMFILE)

    def add(self, folder: int) -> int:
        """Watch an open folder, with the rights of this thread; return its number, always the same for one.

        Raises:
            WatchLimit: the user watches as many as the kernel allows.
            OSError: it may not be read.
        """
        number: int = _libc.inotify_add_watch(self.descriptor, b"/proc/self/fd/%d" % folder, _WANTED)
        if number < 0:
            raise _error("watches", errno.ENOSPC)
        return number

    def remove(self, number: int) -> None:
        """End a watch, if there is still one of that number."""
        _libc.inotify_rm_watch(self.descriptor, number)

    def read(self) -> list[RawEvent]:
        """Return the next queued events; an empty list if the queue is empty."""
        try:
            return list(parse(os.read(self.descriptor, _READ)))
        except BlockingIOError:
            return []

    def close(self) -> None:
        """End it with all its watches."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@contextmanager
def _as_nobody_else() -> Iterator[None]:
    """Let this thread act as a user with a drawn number, if permitted; ctypes' errno stays."""
    own = os.geteuid()
    dumpable, ends_by = _libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0), ctypes.c_int()
    _libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(ends_by), 0, 0, 0)
    if not _act_as(_FIRST_USER | int.from_bytes(os.urandom(4), "big") >> 2):
        yield
        return
    try:
        yield
    finally:
        number = ctypes.get_errno()
        if not _act_as(own):
            os.abort()  # with the rights of no one it could only do harm
        # Who changes users loses both: credentials(7), prctl(2).
        if dumpable == 1:
            _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        if ends_by.value:
            _libc.prctl(_PR_SET_PDEATHSIG, ends_by.value, 0, 0, 0)
        ctypes.set_errno(number)


def _act_as(user: int) -> bool:
    """Change the effective user of this thread alone: the C library would have all threads follow."""
    return _SETRESUID is not None and _libc.syscall(_SETRESUID, _SAME, ctypes.c_long(user), _SAME) == 0


def _error(what: str, limited: int) -> Exception:
    number = ctypes.get_errno()
    if number != limited:
        return OSError(number, os.strerror(number))
    name, value = f"max_user_{what}", "?"
    with suppress(OSError):
        value = (_LIMITS / name).read_text().strip()
    return WatchLimit(f"the kernel's limit is reached (fs.inotify.{name} is {value})")


MAX_FOLDERS = 20_000
MAX_NAMES = 200_000
"""Most names of one folder."""
PER_TURN = 200
"""Names looked at before others get their turn: about a millisecond."""
_READS = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITTEN, _ANOTHER, _MOVED = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Look:
    """The present entry of a name, None if there is none.

    `written`: it was written to since the last look; `moved`: the entry with that name has a new name now.
    """

    folder: str
    name: str
    facts: dict[str, Any] | None
    written: bool
    moved: bool = False

    @property
    def path(self) -> str:
        """The path below the root."""
        return _joined(self.folder, self.name)


class WatchedTree:
    """A folder, and with `recursive` those below it on the same file system. To be closed."""

    def __init__(self, root: str, account: UserAccount, *, recursive: bool, only: str | None = None) -> None:
        """Begin; nothing is watched yet.

        Args:
            root: absolute, without links.
            account: whose rights count.
            recursive: also watch the folders below.
            only: the one name in the root that is of interest.

        Raises:
            WatchLimit, OSError: the kernel allows no more.
        """
        self._root = root
        self._account = account
        self._recursive = recursive
        self._only = only
        self._device: int | None = None
        self.queue = InotifyQueue()
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._inside: dict[str, set[str]] = {}
        """The names of the watched folders in each: to forget a folder costs as much as is in it."""
        self._touched: dict[tuple[str, str], int] = {}
        self.lost = False
        """True if the kernel dropped events: everything must be listed again."""
        self.gone = False
        """True if the root was removed or renamed."""

    @property
    def pending(self) -> bool:
        """True if there are names to look at."""
        return bool(self._touched)

    def walk(self, start: str = "") -> Iterator[tuple[str, list[dict[str, Any]], bool]]:
        """Watch a folder and those below; yield their content: folder, facts, and whether more of it follows.

        A missing folder, or one that the account cannot read, is left out. The caller can do other things
        between two items.

        Raises:
            WatchLimit: there are more folders or names than are allowed.
            OSError: the root cannot be watched.
        """
        below = [start]
        while below:
            folder, entered = below.pop(), False
            try:
                for facts, more in self._content(folder):
                    yield folder, facts, more
                    entered = True
                    if self._recursive:
                        below += [_joined(folder, each["name"]) for each in facts if each["kind"] == "folder"]
            except WatchLimit:
                raise
            except OSError:
                if folder == "" and not entered:
                    raise

    def read(self) -> None:
        """Read the kernel's events, and note which names to look at."""
        for _ in range(_READS):
            events = self.queue.read()
            if not events:
                return
            for event in events:
                self._note(event)
            if len(self._touched) > MAX_NAMES:
                self.lost = True

    def looks(self) -> Iterator[Look | None]:
        """Yield the present entry of each name that has possibly changed; None to let other tasks run.

        A folder that is new there comes first as a name; the caller then walks it if `is_new` says so.
        """
        touched, self._touched = self._touched, {}
        by_folder: dict[str, list[str]] = {}
        for folder, name in touched:
            by_folder.setdefault(folder, []).append(name)
        for folder, names in by_folder.items():
            for start in range(0, len(names), PER_TURN):
                # A folder that is not watched any more is gone, or will be walked.
                some = names[start : start + PER_TURN] if folder in self._numbers else []
                for name, facts in zip(some, self._facts(folder, some), strict=True):
                    why = touched[folder, name]
                    if facts is None or facts["kind"] != "folder" or why & _ANOTHER:
                        self._drop(_joined(folder, name))
                    moved = facts is None and bool(why & _MOVED)
                    yield Look(folder, name, facts, bool(why & _WRITTEN), moved)
                yield None

    def is_new(self, look: Look) -> bool:
        """Return whether a look found a folder that has to be walked."""
        found = look.facts is not None and look.facts["kind"] == "folder"
        return found and self._recursive and look.path not in self._numbers

    def restart(self) -> None:
        """Forget everything after events were lost; `walk` begins again.

        Raises:
            WatchLimit, OSError: the kernel allows no more.
        """
        self.close()
        self.queue, self.lost = InotifyQueue(), False

    def close(self) -> None:
        """End all watches."""
        self.queue.close()
        self._paths.clear()
        self._numbers.clear()
        self._inside.clear()
        self._touched.clear()

    def _note(self, event: RawEvent) -> None:
        if event.mask & OVERFLOW:
            self.lost = True
            return
        folder = self._paths.get(event.watch)
        if folder is None:
            return
        if event.mask & IGNORED:
            del self._paths[event.watch]
            if self._numbers.get(folder) == event.watch:
                del self._numbers[folder]
                self._gone(folder)
        elif not event.name:
            self.gone = self.gone or (folder == "" and bool(event.mask & (DELETE_SELF | MOVE_SELF)))
        elif self._only is None or event.name == self._only:
            came = event.mask & (CREATE | MOVED_TO) and event.mask & ISDIR
            why = (_WRITTEN if event.mask & MODIFY else 0) | (_ANOTHER if came else 0)
            why |= _MOVED if event.mask & MOVED_FROM else 0
            key = (folder, event.name)
            before = self._touched.get(key, 0)
            if event.mask & DELETE:  # of another file that had the name after one that was moved
                before &= ~_MOVED
            self._touched[key] = before | why

    def _gone(self, folder: str) -> None:
        """Note that a folder's watch has ended, and that its name can be reused."""
        if folder == "":
            self.gone = True
            return
        above, _, name = folder.rpartition("/")
        self._touched[above, name] = self._touched.get((above, name), 0) | _ANOTHER

    def _content(self, folder: str) -> Iterator[tuple[list[dict[str, Any]], bool]]:
        with as_user(self._account):
            opened = self._open(folder)
        try:
            with as_user(self._account):
                if not self._watch(folder, opened):
                    return
                names = sorted(os.listdir(opened))  # noqa: PTH208
            if self._only is not None:
                names = [name for name in names if name == self._only]
            if len(names) > MAX_NAMES:
                raise WatchLimit(f"a folder has more than {MAX_NAMES} names")
            for start in range(0, len(names) or 1, PER_TURN):
                with as_user(self._account):
                    looked = [self._look(opened, name) for name in names[start : start + PER_TURN]]
                yield [each for each in looked if each is not None], start + PER_TURN < len(names)
        finally:
            os.close(opened)

    def _watch(self, folder: str, opened: int) -> bool:
        """Watch an open folder, unless it is on another file system."""
        device = os.fstat(opened).st_dev
        if self._device is None:
            self._device = device
        if device != self._device:
            return False
        if len(self._paths) >= MAX_FOLDERS and folder not in self._numbers:
            raise WatchLimit(f"there are more than {MAX_FOLDERS} folders")
        number = self.queue.add(opened)
        before = self._paths.get(number)
        if before is not None and before != folder:
            self._drop(before, kept=number)  # it was moved here
        if self._numbers.get(folder, number) != number:
            self._drop(folder)  # another one was here
        self._paths[number], self._numbers[folder] = folder, number
        if folder:
            above, _, name = folder.rpartition("/")
            self._inside.setdefault(above, set()).add(name)
        return True

    def _drop(self, folder: str, *, kept: int | None = None) -> None:
        """Forget the watches of a folder and those below; all but one end."""
        above, _, name = folder.rpartition("/")
        self._inside.get(above, set()).discard(name)
        left = [folder]
        while left:
            path = left.pop()
            left += [_joined(path, inside) for inside in self._inside.pop(path, ())]
            number = self._numbers.pop(path, None)
            if number is not None and self._paths.get(number) == path:
                del self._paths[number]
                if number != kept:
                    self.queue.remove(number)

    def _facts(self, folder: str, names: list[str]) -> list[dict[str, Any] | None]:
        """Return the entries of some names; None for each if the folder is missing or unreadable."""
        if not names:
            return []
        with as_user(self._account):
            try:
                opened = self._open(folder)
            except OSError:
                return [None] * len(names)
            try:
                return [self._look(opened, name) for name in names]
            finally:
                os.close(opened)

    def _open(self, folder: str) -> int:
        """Open a folder, following no link below the root."""
        here = os.open(self._root, _FOLDER)
        for part in folder.split("/") if folder else ():
            try:
                below = os.open(part, _FOLDER, dir_fd=here)
            finally:
                os.close(here)
            here = below
        return here

    @staticmethod
    def _look(opened: int, name: str) -> dict[str, Any] | None:
        try:
            found = os.stat(name, dir_fd=opened, follow_symlinks=False)
            target = os.readlink(name, dir_fd=opened) if stat.S_ISLNK(found.st_mode) else None
        except OSError:
            return None
        return file_facts.described(found, name, target)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
