"""A parser of /proc/PID/stat, see proc_pid_stat(5). Pure."""

from __future__ import annotations

import os

from holdfast.base.value_classes import dataclass

TICKS: float = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PF_EXITING = 0x4
_PTS = range(136, 144)
"""Major numbers of pseudo-terminals, 256 of each, see devices.txt of Linux."""


@dataclass(frozen=True, slots=True)
class Stat:
    """A task. `start` is in seconds of the boot clock, `cpu` in seconds."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    terminal: int
    """Device number of the controlling terminal; 0 if there is none."""
    foreground: int
    """Foreground process group of that terminal, or -1."""
    cpu: float
    threads: int
    start: float
    virtual: int
    """Bytes."""
    resident: int
    """Bytes."""
    flags: int = 0
    """The kernel's PF_ flags."""

    @property
    def ended(self) -> bool:
        """True if it has ended, or is about to and no longer heeds signals."""
        return self.state in ("Z", "X") or bool(self.flags & _PF_EXITING)


def fields(data: bytes) -> list[bytes]:
    """Return the fields after the name: the state is the first, and the man page counts it as the third."""
    # The name in parentheses may contain anything.
    return data[data.rfind(b")") + 1 :].split()


def parse(data: bytes) -> Stat | None:
    """Return a task's stat, or None if the text is not one (the task is gone)."""
    begin, end, rest = data.find(b"("), data.rfind(b")"), fields(data)
    if begin < 0 or end < 0 or len(rest) < 22:
        return None
    try:
        return Stat(
            pid=int(data[:begin]),
            name=data[begin + 1 : end].decode("utf-8", "replace"),
            state=rest[0].decode("ascii", "replace"),
            parent=int(rest[1]),
            group=int(rest[2]),
            session=int(rest[3]),
            terminal=int(rest[4]),
            foreground=int(rest[5]),
            cpu=(int(rest[11]) + int(rest[12])) / TICKS,
            threads=int(rest[17]),
            start=int(rest[19]) / TICKS,
            virtual=int(rest[20]),
            resident=int(rest[21]) * _PAGE,
            flags=int(rest[6]),
        )
    except ValueError:
        return None


def device(number: int) -> tuple[int, int]:
    """Return major and minor number of a terminal (`tty_nr`)."""
    return number >> 8 & 0xFFF, number & 0xFF | number >> 12 & 0xFFF00


def pseudo_terminal(major: int, minor: int) -> int | None:
    """Return N of the terminal /dev/pts/N, or None if this is another device, or none."""
    return (major - _PTS.start) * 256 + minor if major in _PTS else None
