"""Runs in a session: reports on request the personality of each of its processes and threads.

Each has a thread, and is the child of the previous process. It makes FOLDER/ready-NAME, waits for
FOLDER/go, and answers in FOLDER/said-NAME.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from pathlib import Path

FOLDER, NAMES = Path(sys.argv[1]), sys.argv[2:]
VALUES = {"plain": 0, "plain-again": 0, "old": 0x20000, "thirty-two": 0x8, "both": 0x20008}
LIBC = ctypes.CDLL(None)
told: dict[str, object] = {}


def tell(who: str) -> None:
    """Return the kernel's report on the calling thread."""
    of = os.uname()
    told[who] = [
        LIBC.personality(ctypes.c_ulong(0xFFFFFFFF)),
        of.machine == "x86_64",
        of.release.startswith("2.6."),
    ]


def wait() -> None:
    while not (FOLDER / "go").exists():
        time.sleep(0.02)


def in_thread() -> None:
    wait()
    tell("thread")


name = "first"
for name in NAMES:  # each a child of the one before
    if name == NAMES[0] or os.fork() == 0:
        LIBC.personality(VALUES[name])
    else:
        name = NAMES[NAMES.index(name) - 1]
        break
beside = threading.Thread(target=in_thread)
beside.start()
(FOLDER / f"ready-{name}").touch()
wait()
tell("main")
beside.join()
if os.fork() == 0:
    tell("child")
    (FOLDER / "new").mkdir(exist_ok=True)
    (FOLDER / "new" / name).write_text(json.dumps(told))
    (FOLDER / "new" / name).rename(FOLDER / f"said-{name}")
    os._exit(0)
os.wait()
time.sleep(1000)
