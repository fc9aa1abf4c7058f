"""Two heaps that are always equal but for one word, in a process that is not to see its twins.

`python heaps.py MB [guarded]` writes "ready". After SIGUSR1 it writes "equal N M" or "different N M": N
counts the children it was notified of, and has none, M the lost guards, pages that it must not touch. With
`guarded`, a child made by clone(2) would end it.
"""

import ctypes
import mmap
import os
import random
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

ANY_KIND = 0x40000000
"""__WALL of wait(2)."""


GUARD_INSTALL = 102
"""MADV_GUARD_INSTALL of madvise(2)."""
GUARDED = 16
"""Megabytes of the heap that has a guard."""


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def heap(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def add_guard(memory: mmap.mmap) -> int:
    """Make one page in the middle a guard; return 0 if the kernel is older than 6.13."""
    with suppress(OSError):
        memory.madvise(GUARD_INSTALL, len(memory) // 2, mmap.PAGESIZE)
        return guards_in(memory)
    return 0


def guards_in(memory: mmap.mmap) -> int:
    """Count the guards (bit 58 of their entries in pagemap since Linux 6.14)."""
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory)) // mmap.PAGESIZE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
        entries = os.pread(pagemap.fileno(), len(memory) // mmap.PAGESIZE * 8, first * 8)
    return sum(entry >> 58 & 1 for entry in memoryview(entries).cast("Q"))


def forbid_children() -> None:
    """Have the kernel end this process if it calls clone(2), clone3(2) or wait4(2) (seccomp(2), x86-64)."""
    load, compare, refuse, allow = 0x20, 0x15, 0x80000000, 0x7FFF0000
    forbidden = (56, 435, 61)
    program = struct.pack("HBBI", load, 0, 0, 0)
    for number, call in enumerate(forbidden):
        program += struct.pack("HBBI", compare, len(forbidden) - number, 0, call)
    program += struct.pack("HBBI", 0x06, 0, 0, allow) + struct.pack("HBBI", 0x06, 0, 0, refuse)
    filters = ctypes.create_string_buffer(program)
    spec = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(filters)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, spec):
        raise OSError(ctypes.get_errno(), "seccomp")


def main() -> None:
    size = int(sys.argv[1]) << 20
    first, second = heap(size), heap(size)
    block = os.urandom(1 << 20)
    for at in range(0, size, 1 << 20):
        first[at : at + (1 << 20)] = second[at : at + (1 << 20)] = block
    words = [memoryview(one).cast("Q") for one in (first, second)]
    asked: list[int] = []
    strangers: list[int] = []

    def on_question(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    def on_child(number: int, frame: FrameType | None) -> None:
        strangers.append(number)

    signal.signal(signal.SIGUSR1, on_question)
    signal.signal(signal.SIGCHLD, on_child)
    third = heap(GUARDED << 20)
    third[:] = block * GUARDED
    guards = add_guard(third)
    guarded = "guarded" in sys.argv
    if guarded:
        forbid_children()
    say("ready")
    draw = random.Random(1)
    for count in range(1, 1 << 62):
        place = draw.randrange(size // 8)
        words[0][place] = count
        words[1][place] = count
        if not guarded and count % 64 == 0:
            with suppress(ChildProcessError):
                strangers.append(os.waitpid(-1, os.WNOHANG | ANY_KIND)[0])
        if asked:
            asked.clear()
            places = range(0, size, len(block))
            same = all(first[at : at + len(block)] == second[at : at + len(block)] for at in places)
            say(f"{'equal' if same else 'different'} {len(strangers)} {guards - guards_in(third)}")


main()
