"""Gives memory back as soon as it is a copy: `python3 returning.py FOLDER NUMBER`.

It makes FOLDER/ready-NUMBER. In a copy, the time of day has advanced and the monotonic clock has not. There
it reports many parts to the kernel as not needed (madvise(2)), unmaps them immediately, and writes the
number of remaining pages with different content to FOLDER/wrong-NUMBER.
"""

from __future__ import annotations

import ctypes
import sys
import time
from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
SIZE, RETURNED, KEPT = 256 * PAGESIZE, 60, 100
STEP = 16 * PAGESIZE
FOLDER, NUMBER = Path(sys.argv[1]), sys.argv[2]
AHEAD = 0.3
"""Seconds by which the time of day has moved on in a copy, at least."""


def mapped(size: int, access: int) -> int:
    return int(LIBC.mmap(None, size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))


def part(number: int) -> int:
    """Return memory with a number in it, separate from all other parts."""
    address = mapped(SIZE, PROT_READ | PROT_WRITE)
    ctypes.memset(address, number % 255 + 1, SIZE)
    mapped(PAGESIZE, 0)
    return address


def ahead() -> float:
    return time.time() - time.monotonic()


returned, kept = ([part(number) for number in range(count)] for count in (RETURNED, KEPT))
before = ahead()
(FOLDER / f"ready-{NUMBER}").touch()
while ahead() < before + AHEAD:
    time.sleep(0.001)
for address in returned:
    LIBC.madvise(address, SIZE, MADV_DONTNEED)
    LIBC.munmap(address, SIZE)
wrong = sum(
    ctypes.string_at(address + offset, 1)[0] != number % 255 + 1
    for number, address in enumerate(kept)
    for offset in range(0, SIZE, STEP)
)
(FOLDER / f"wrong-{NUMBER}").write_text(str(wrong))
time.sleep(10_000)
