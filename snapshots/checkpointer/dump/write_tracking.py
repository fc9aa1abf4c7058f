"""Which pages of large heaps have been written since the last capture, as the kernel notes it.

The kernel notes it for memory that is registered with userfaultfd(2) and protected in a way in which a write
ends the protection of its page and makes no one wait (UFFD_FEATURE_WP_ASYNC, Linux 6.7). PAGEMAP_SCAN tells
the pages that have lost theirs, and protects them again (Documentation/admin-guide/mm/pagemap.rst of Linux).

The descriptor belongs to the memory of one process, until that executes another program. Between two captures
a process of ours has it, which does nothing: the *holder*. It ends when the next capture comes too late to
build on this one. When it does, for whatever reason, the kernel forgets that the memory was registered, and
no page is known to be unwritten.

Never is a page taken as unwritten by mistake:

- A holder counts only for the capture that follows the snapshot named with it. A capture that
  begins uses it up, and only one that ends well leaves another holder.
- A mapping that was made, moved or inherited after that is not registered, and the scan of it fails.
- A page that does not exist is not unwritten; one that does was in the last capture, or of zeros then.
- A process with a queue of asynchronous reads (io_setup(2)), which devices can fill without a page fault, is
  not tracked.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.snapshots.checkpointer.ground import pidfd_files
from holdfast.snapshots.checkpointer.record import page_ranges
from holdfast.snapshots.checkpointer.record.earlier_names import RECENT
from holdfast.snapshots.checkpointer.record.page_ranges import Range

STATE = Path("/run/written")
MOST_RANGES = 50_000
"""Parts of a process's heaps; with more of them, they are written as a whole."""
_END_LIMIT = 5000
"""Milliseconds."""
# linux/userfaultfd.h, linux/fs.h
_REGISTER, _PROTECT = 0xC020AA00, 0xC018AA06
_WRITE_PROTECTED, _PROTECTED = 2, 1
_SCAN = 0xC0606610
_ARGUMENTS = struct.Struct("12Q")
_REGION = struct.Struct("3Q")
_REGIONS = 4096
_PROTECT_MATCHING, _ONLY_TRACKED = 1, 2
_WRITTEN, _PRESENT, _SWAPPED = 2, 8, 16
_AIO = b"/[aio]"


class NotTracked(OSError):
    """The written pages of a mapping are not known."""


@dataclass(slots=True)
class TrackedMemory:
    """The memory of one process; `covered` was protected at the last capture, which has the pages of `kept`.

    Attributes:
        pid: the process, in our namespace.
        started: when it began, in the kernel's ticks.
        descriptor: the userfaultfd of its memory.
        covered: its heaps; all pages of them that are not in `kept` did not exist or consisted of zeros.
        kept: the pages that the images of the last capture have.
    """

    pid: int
    started: int
    descriptor: int
    covered: list[Range] = field(default_factory=list)
    kept: list[Range] = field(default_factory=list)

    def protect(self, start: int, end: int) -> None:
        """Begin to note writes in a mapping. Raises OSError."""
        register = struct.pack("4Q", start, end - start, _WRITE_PROTECTED, 0)
        fcntl.ioctl(self.descriptor, _REGISTER, register)
        fcntl.ioctl(self.descriptor, _PROTECT, struct.pack("3Q", start, end - start, _PROTECTED))

    def close(self) -> None:
        """Release the memory. Once it is closed everywhere, writes are no longer noted."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class PageScan:
    """The scan of one process's pages; to be closed."""

    def __init__(self, pid: int) -> None:
        """Open it. Raises OSError."""
        self._pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        self._regions = ctypes.create_string_buffer(_REGIONS * _REGION.size)

    def close(self) -> None:
        """Close it."""
        os.close(self._pagemap)

    def unwritten(self, start: int, end: int) -> list[Range]:
        """Return the existing unwritten pages of a mapping. Raises NotTracked."""
        return page_ranges.joined(self._ranges(start, end, _ONLY_TRACKED, _WRITTEN))

    def take_written(self, start: int, end: int) -> list[Range]:
        """Return the written pages, and note further writes of them. Raises NotTracked."""
        return page_ranges.joined(self._ranges(start, end, _ONLY_TRACKED | _PROTECT_MATCHING, 0))

    def _ranges(self, start: int, end: int, flags: int, inverted: int) -> Iterator[Range]:
        place = ctypes.addressof(self._regions)
        while start < end:
            asked = bytearray(
                _ARGUMENTS.pack(
                    *(_ARGUMENTS.size, flags, start, end, 0, place, _REGIONS, 0, inverted),
                    *(_WRITTEN, _PRESENT | _SWAPPED, _PRESENT | _SWAPPED),
                )
            )
            try:
                count = fcntl.ioctl(self._pagemap, _SCAN, asked)
            except OSError as error:
                raise NotTracked(error.errno, "which pages were written is not known") from error
            found = [
                (first, last)
                for first, last, _ in _REGION.iter_unpack(self._regions.raw[: count * _REGION.size])
            ]
            yield from found
            # It fills a buffer of 512 regions at a time, and says where that was full last (Linux 6.18).
            reached = max(_ARGUMENTS.unpack(asked)[4], *(last for _, last in found[-1:]), 0)
            if not start < reached <= end:
                raise NotTracked(errno.EIO, "the kernel did not look at all pages")
            start = reached


def reads_behind_the_kernel(maps: bytes) -> bool:
    """Return whether devices can write into a process's memory without a page fault; of /proc/PID/maps."""
    return _AIO in maps


def started(pid: int) -> int:
    """Return when a process began, in ticks (proc_pid_stat(5)). Raises OSError."""
    with Path(f"/proc/{pid}/stat").open("rb") as file:
        return int(file.read(4096).rpartition(b")")[2].split()[19])


def taken(container: str, snapshot: str) -> dict[int, TrackedMemory]:
    """Return the tracked memory of a container since that snapshot, by pid, and end its holder.

    Nothing, if that is not known. It is used up by that.
    """
    path = STATE / f"{container}.json"
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    path.unlink()
    found: dict[int, TrackedMemory] = {}
    try:
        holder = os.pidfd_open(state["holder"])
    except OSError:
        return {}
    try:
        if started(state["holder"]) == state["started"]:
            if state["snapshot"] == snapshot:
                found = _copied(state["holder"], state["memories"])
            signal.pidfd_send_signal(holder, signal.SIGKILL)
            select.select([holder], [], [], _END_LIMIT / 1000)
    except OSError:
        for one in found.values():
            one.close()
        found = {}
    finally:
        os.close(holder)
    return found


def _copied(holder: int, memories: Sequence[Mapping[str, object]]) -> dict[int, TrackedMemory]:
    found: dict[int, TrackedMemory] = {}
    for told in memories:
        memory = TrackedMemory(
            int(str(told["pid"])),
            int(str(told["started"])),
            -1,
            _pairs(told["covered"]),
            _pairs(told["kept"]),
        )
        with suppress(OSError):
            if started(memory.pid) == memory.started:
                memory.descriptor = pidfd_files.copy(holder, int(str(told["descriptor"])))
                found[memory.pid] = memory
    return found


def _pairs(told: object) -> list[Range]:
    assert isinstance(told, list)
    return [(int(start), int(end)) for start, end in told]


def leave(container: str, snapshot: str, memories: Sequence[TrackedMemory]) -> None:
    """Give memory that is tracked since this snapshot to a holder; raises OSError."""
    if not memories:
        return
    STATE.mkdir(mode=0o700, exist_ok=True)
    path = STATE / f"{container}.json"
    path.unlink(missing_ok=True)
    for one in memories:
        os.set_inheritable(one.descriptor, True)
    holder = os.posix_spawn("/bin/sleep", ["sleep", str(RECENT)], {}, setsid=True)
    state = {
        "snapshot": snapshot,
        "holder": holder,
        "started": started(holder),
        "memories": [
            {
                "pid": one.pid,
                "started": one.started,
                "descriptor": one.descriptor,
                "covered": one.covered,
                "kept": one.kept,
            }
            for one in memories
        ],
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(state, separators=(",", ":")))
    new.replace(path)
