"""Runs in a session: confines itself in every way it can, and reports on request which of them hold.

It creates FOLDER/ready, waits for FOLDER/go, and answers in FOLDER/said: for each way whether the kernel
agreed to it and whether it holds now, as [errno or 0, holds].
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LANDLOCK_CREATE, LANDLOCK_RESTRICT, MSEAL = 444, 446, 462
NO_NEW_PRIVS, SECCOMP, SET_MDWE = 38, 22, 65
MAKE_FILE = 1 << 8
X86 = os.uname().machine != "aarch64"


def outcome(result: int) -> int:
    """Return 0, or the error of a call."""
    return 0 if result >= 0 else ctypes.get_errno()


def landlocked() -> int:
    """Forbid itself to make any more files, anywhere."""
    handled = struct.pack("Q", MAKE_FILE)
    rules = LIBC.syscall(LANDLOCK_CREATE, handled, ctypes.c_long(len(handled)), 0)
    if rules < 0:
        return outcome(rules)
    done = outcome(LIBC.syscall(LANDLOCK_RESTRICT, rules, 0))
    os.close(rules)
    return done


def makes_files() -> bool:
    try:
        (FOLDER / "made").touch()
    except OSError:
        return False
    return True


page = LIBC.mmap(None, ctypes.c_long(mmap.PAGESIZE), 3, 0x22, -1, ctypes.c_long(0))


def sealed() -> int:
    """Never unmap a page."""
    return outcome(LIBC.syscall(MSEAL, ctypes.c_void_p(page), ctypes.c_long(mmap.PAGESIZE), 0))


def unmaps() -> bool:
    return bool(LIBC.munmap(ctypes.c_void_p(page), ctypes.c_long(mmap.PAGESIZE)) == 0)


def without_new_code() -> int:
    """Forbid itself memory that is written and executed."""
    return outcome(LIBC.prctl(SET_MDWE, 1, 0, 0, 0))


def executes_what_it_writes() -> bool:
    made = LIBC.mmap(None, ctypes.c_long(mmap.PAGESIZE), 7, 0x22, -1, ctypes.c_long(0))
    return bool(made != ctypes.c_void_p(-1).value)


def filtered() -> int:
    """Forbid itself any more folders: mkdir and mkdirat fail with EPERM."""
    refused = (83, 258) if X86 else (-1, 34)
    number, equal, give = 0x20, 0x15, 0x06
    program = [
        (number, 0, 0, 0),
        (equal, 2, 0, refused[0] & 0xFFFFFFFF),
        (equal, 1, 0, refused[1]),
        (give, 0, 0, 0x7FFF0000),
        (give, 0, 0, 0x00050001),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    filter_ = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    return outcome(LIBC.prctl(SECCOMP, 2, filter_, 0, 0))


def makes_folders() -> bool:
    try:
        (FOLDER / "folder").mkdir()
    except OSError:
        return False
    return True


WAYS: dict[str, tuple[Callable[[], int], Callable[[], bool]]] = {
    "landlock": (landlocked, makes_files),
    "mseal": (sealed, unmaps),
    "mdwe": (without_new_code, executes_what_it_writes),
    "seccomp": (filtered, makes_folders),
}
said = (FOLDER / "said").open("w")
ready = (FOLDER / "ready").open("w")
LIBC.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
agreed = {name: confine() for name, (confine, _) in WAYS.items()}
ready.write("\n".join(f"{name} {error}" for name, error in agreed.items()))
ready.close()
while not (FOLDER / "go").exists():
    time.sleep(0.02)
said.write(json.dumps({name: [agreed[name], not can()] for name, (_, can) in WAYS.items()}))
said.close()
time.sleep(1000)
