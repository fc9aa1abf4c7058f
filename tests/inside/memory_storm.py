"""Root in a fork with memory still to be loaded changes it in every way the kernel allows, from many
threads.

Run in a session's kernel that has `heap` and `mark` (`test_memory_on_touch.py`). `storm` returns how often
each attack took place, which wrong values were read (zeros are right where memory was given back), and how
many threads hang.
"""

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PAGE = 4096
ENOUGH = Path("/tmp/enough")
"""The storm lasts until it is there."""
PART = 16 << 20
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = _LIBC.mremap.restype = ctypes.c_void_p
_DONTNEED, _MERGEABLE, _COLD, _PAGEOUT = 4, 12, 20, 21
_MAYMOVE, _FIXED = 1, 2
Attack = Callable[[int, random.Random], None]
_SEIZE = 0x4206


def storm(
    heap: bytearray, mark: Callable[[int], bytes]
) -> tuple[dict[str, int], list[tuple[int, bytes, bytes]], int]:
    """Attack the heap in parts: the first is only read, the second given back, the third moved away."""
    base = ctypes.addressof((ctypes.c_char * len(heap)).from_buffer(heap))
    where, offset = base - base % PAGE, base % PAGE
    done = dict.fromkeys(_ATTACKS, 0)
    wrong: list[tuple[int, bytes, bytes]] = []

    def repeat(name: str, attack: Attack) -> None:
        dice = random.Random(name)
        while not ENOUGH.exists():
            attack(where, dice)
            done[name] += 1

    def read(number: int) -> None:
        dice, buffer = random.Random(number), ctypes.create_string_buffer(8)
        while not ENOUGH.exists():
            at = dice.randrange(1, 2 * PART // PAGE) * PAGE
            _touch(where + at + offset, buffer)
            if buffer.raw != mark(at) and not (buffer.raw == bytes(8) and at >= PART):
                wrong.append((at, buffer.raw, mark(at)))
            done["read"] += 1

    threads = [threading.Thread(target=repeat, args=each) for each in _ATTACKS.items() if each[1]]
    threads += [threading.Thread(target=read, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    return done, wrong[:5], sum(thread.is_alive() for thread in threads)


def _touch(address: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
    """Read some bytes, while other threads continue."""
    _LIBC.memcpy(buffer, ctypes.c_void_p(address), ctypes.c_size_t(len(buffer)))


def _give_back(where: int, dice: random.Random) -> None:
    at = PART + dice.randrange(PART // PAGE) * PAGE
    advice = dice.choice((_DONTNEED, _DONTNEED, _COLD, _PAGEOUT, _MERGEABLE))
    _LIBC.madvise(ctypes.c_void_p(where + at), ctypes.c_size_t(PAGE * dice.randrange(1, 4)), advice)


def _move(where: int, dice: random.Random) -> None:
    """Move a page that waits to a mapping of its own and look at it there, or unmap it."""
    at = 2 * PART + dice.randrange(PART // PAGE) * PAGE
    if dice.random() < 0.3:
        _LIBC.munmap(ctypes.c_void_p(where + at), ctypes.c_size_t(PAGE))
        return
    new = _LIBC.mmap(None, ctypes.c_size_t(PAGE), 3, 0x22, -1, 0)
    moved = _LIBC.mremap(
        ctypes.c_void_p(where + at),
        ctypes.c_size_t(PAGE),
        ctypes.c_size_t(PAGE),
        _MAYMOVE | _FIXED,
        ctypes.c_void_p(new),
    )
    if moved and moved != ctypes.c_void_p(-1).value:
        _touch(moved, ctypes.create_string_buffer(8))


def _fork(where: int, dice: random.Random) -> None:
    buffer, pid = ctypes.create_string_buffer(8), os.fork()
    if pid == 0:
        for _ in range(50):
            _touch(where + dice.randrange(PART // PAGE) * PAGE, buffer)
        if dice.random() < 0.5:
            os.execv("/bin/true", ["true"])
        os.kill(os.getpid(), dice.choice((signal.SIGKILL, signal.SIGSEGV)))
        os._exit(0)
    os.waitpid(pid, 0)


def _trace(where: int, dice: random.Random) -> None:
    """A child traces a thread of this process, and reads memory that waits."""
    code = (
        f"import ctypes,os\nlibc=ctypes.CDLL(None)\npid={os.getpid()}\n"
        f"libc.ptrace({_SEIZE},pid,None,None)\nbuffer=ctypes.create_string_buffer(4096)\n"
        "class V(ctypes.Structure): _fields_=[('b',ctypes.c_void_p),('s',ctypes.c_size_t)]\n"
        f"for n in range(200):\n at={where}+n*16*4096\n"
        " ours,theirs=V(ctypes.addressof(buffer),4096),V(at,4096)\n"
        " libc.process_vm_readv(pid,ctypes.byref(ours),1,ctypes.byref(theirs),1,0)\n"
        " try: os.pread(os.open(f'/proc/{pid}/mem',0),8,at)\n except OSError: pass\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60, capture_output=True)


def _huge(where: int, dice: random.Random) -> None:
    """Address space without memory, next to the heap and around it."""
    size = 1 << dice.randrange(30, 44)
    made = _LIBC.mmap(None, ctypes.c_size_t(size), 3, 0x4022, -1, 0)  # MAP_NORESERVE
    if made and made != ctypes.c_void_p(-1).value:
        _LIBC.madvise(ctypes.c_void_p(made), ctypes.c_size_t(size), 14)
        _touch(made, ctypes.create_string_buffer(8))
        _LIBC.munmap(ctypes.c_void_p(made), ctypes.c_size_t(size))


def _protect(where: int, dice: random.Random) -> None:
    at = PART + dice.randrange(PART // PAGE) * PAGE
    _LIBC.mprotect(ctypes.c_void_p(where + at), ctypes.c_size_t(PAGE), 1)
    _LIBC.mprotect(ctypes.c_void_p(where + at), ctypes.c_size_t(PAGE), 3)
    _LIBC.mlock(ctypes.c_void_p(where + at), ctypes.c_size_t(PAGE))


def _ask(where: int, dice: random.Random) -> None:
    """Userfaultfd of its own, and any descriptor of the server."""
    _LIBC.syscall(323, 0)
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if "userfaultfd" in str(path.readlink()):
                raise SystemExit("the descriptor of the memory's server is in the session")


_ATTACKS: dict[str, Attack | None] = {
    "read": None,
    "give back": _give_back,
    "move": _move,
    "fork": _fork,
    "trace": _trace,
    "huge": _huge,
    "protect": _protect,
    "ask": _ask,
}
