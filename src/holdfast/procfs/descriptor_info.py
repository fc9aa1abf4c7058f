"""A parser of /proc/PID/fdinfo/N, see proc_pid_fdinfo(5). Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from holdfast.base.value_classes import dataclass

_INOTIFY = re.compile(r"inotify wd:[0-9a-f]+ ino:([0-9a-f]+) sdev:([0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class FileLock:
    """A lock on the file. `kind` is `posix`, `flock`, `ofd` or `lease`; `pid` -1: of no process (OFD).

    `end` is the last byte, None for the end of the file. `waits`: it is not held, but waited for.
    """

    kind: str
    mode: str
    pid: int
    start: int
    end: int | None
    waits: bool
    mandatory: bool = False


@dataclass(frozen=True, slots=True)
class EpollEntry:
    """An entry of an epoll instance: descriptor, events, inode of the watched file."""

    fd: int
    events: int
    inode: int


@dataclass(frozen=True, slots=True)
class FdInfo:
    """Information about an open descriptor.

    `others` has every line that only some kinds have, in order, split at the colon: `eventfd-count`,
    `sigmask`, `clockid`, `inotify wd`, `fanotify ino`, `Pid` of a pidfd, …
    """

    pos: int
    flags: int
    mount_id: int
    inode: int
    locks: tuple[FileLock, ...]
    watched: tuple[EpollEntry, ...]
    others: tuple[tuple[str, str], ...]

    @property
    def access(self) -> str:
        """`r`, `w`, `rw`, or `path` for a descriptor that only names a file (O_PATH)."""
        return "path" if self.flags & os.O_PATH else self.mode

    @property
    def mode(self) -> str:
        """`r`, `w` or `rw`, by the flags alone."""
        return {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}.get(self.flags & os.O_ACCMODE, "?")

    def value(self, name: str) -> str | None:
        """Return the value of the first of `others` by that name."""
        return next((value for key, value in self.others if key == name), None)

    def count(self, prefix: str) -> int:
        """Return how many of `others` begin with `prefix`; `inotify` gives the number of watches."""
        return sum(key.startswith(prefix) for key, _ in self.others)

    def watches(self) -> Iterator[tuple[int, int]]:
        """Yield device, as stat(2) has it, and inode of the file under each watch of an inotify."""
        for name, value in self.others:
            found = _INOTIFY.match(f"{name}:{value}")
            if found is not None:
                yield _device(int(found[2], 16)), int(found[1], 16)

    @property
    def pid(self) -> int | None:
        """The process of a pidfd, as the reader's namespace numbers it.

        0: not in it; -1: it has ended. None: not a pidfd.
        """
        return _signed(self.value("Pid"))


def parse(data: bytes) -> FdInfo:
    """Return a descriptor's information; missing values are 0."""
    numbers = {"pos": 0, "flags": 0, "mnt_id": 0, "ino": 0}
    locks: list[FileLock] = []
    watched: list[EpollEntry] = []
    others: list[tuple[str, str]] = []
    for line in data.decode("utf-8", "replace").split("\n"):
        name, colon, value = line.partition(":")
        if not colon:
            continue
        if name in numbers:
            numbers[name] = _integer(value, 8 if name == "flags" else 10)
        elif name == "lock":
            lock = parse_lock(value)
            if lock is not None:
                locks.append(lock)
        elif name.startswith("tfd"):
            watched.append(_watched(value))
        else:
            others.append((name.strip(), value.strip()))
    return FdInfo(
        numbers["pos"],
        numbers["flags"],
        numbers["mnt_id"],
        numbers["ino"],
        tuple(locks),
        tuple(watched),
        tuple(others),
    )


def parse_lock(line: str) -> FileLock | None:
    """Return a lock as in /proc/locks, see proc_locks(5): "1: POSIX  ADVISORY  WRITE 42 08:01:7 0 EOF"."""
    words = line.split()
    waits = "->" in words
    words = [word for word in words if word != "->"]
    if len(words) != 8:
        return None
    _, kind, enforced, mode, pid, _, start, end = words
    kinds = {"OFDLCK": "ofd", "DELEG": "lease"}
    return FileLock(
        kinds.get(kind, kind.lower()),
        mode.lower(),
        _integer(pid, 10),
        _integer(start, 10),
        None if end == "EOF" else _integer(end, 10),
        waits,
        enforced == "MANDATORY",
    )


def _watched(value: str) -> EpollEntry:
    """Read "  5 events:       19 data: 5  pos:0 ino:3d sdev:8"; numbers but the first are hexadecimal."""
    first, _, rest = value.strip().partition(" ")
    words = rest.replace(":", " ").split()
    table = dict(zip(words[::2], words[1::2], strict=False))
    return EpollEntry(
        _integer(first, 10), _integer(table.get("events", ""), 16), _integer(table.get("ino", ""), 16)
    )


def _device(number: int) -> int:
    """Return a device number from the kernel's internal one: 20 bits for the minor number."""
    return os.makedev(number >> 20, number & 0xFFFFF)


def _integer(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        return 0


def _signed(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return None
