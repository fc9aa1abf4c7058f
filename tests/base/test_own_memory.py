"""A process that serves gives freed memory back to the system, whichever of its threads has used it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

MIB = 1 << 20
PROGRAM = """
import sys, threading
from holdfast.base import own_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) << 12

if sys.argv[1] == "returned":
    own_memory.return_what_is_freed()
for _ in range(3):
    bytearray(b"x") * (4 << 20)  # from here on the library would take such blocks from its arenas
before, kept, turn = resident(), [], threading.Barrier(8)

def pass_on():
    blocks = []
    for _ in range(4):
        blocks.append(bytearray(b"x") * (4 << 20))
        kept.append(b"y" * 2000)  # behind it: what is freed is not the end of the arena
    turn.wait()
    blocks.clear()
    turn.wait()

threads = [threading.Thread(target=pass_on) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such options")
def test_blocks_that_threads_have_freed_are_returned() -> None:
    """Without it, most of 128 MiB stay."""
    grown = {
        how: int(subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, check=True).stdout)
        for how in ("returned", "kept")
    }
    assert grown["returned"] < 16 * MIB
    assert grown["kept"] > 4 * grown["returned"]
