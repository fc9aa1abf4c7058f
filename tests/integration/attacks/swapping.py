"""Swaps folders that it watches, and links in their places, as fast as it can; until `go` appears.

Then it makes something in each, by a descriptor opened at the start, and says which watches saw it.
"""

import ctypes
import json
import os
import struct
import threading
from pathlib import Path

COUNT = 24
HERE = Path("/srv/swapping")
LIBC = ctypes.CDLL(None, use_errno=True)
LINKS = ("/", "/etc", "/proc/1/root", "/proc/self/cwd", "..", "/dev/shm")

(HERE / "in").mkdir(parents=True)
(HERE / "out").mkdir()
queue = LIBC.inotify_init1(0)
folders: list[int] = []
watches: list[int] = []
for number in range(COUNT):
    (HERE / "in" / str(number)).mkdir()
    folders.append(os.open(HERE / "in" / str(number), os.O_RDONLY | os.O_DIRECTORY))
    watches.append(LIBC.inotify_add_watch(queue, os.fsencode(HERE / "in" / str(number)), 0x100))
done = threading.Event()


def swap() -> None:
    turn = 0
    while not done.is_set():
        turn += 1
        name, other = str(turn % COUNT), str(turn * 7 % COUNT)
        (HERE / "in" / name).rename(HERE / "out" / name)
        (HERE / "in" / name).symlink_to(LINKS[turn % len(LINKS)])
        (HERE / "in" / name).unlink()
        if name != other:
            (HERE / "in" / other).rename(HERE / "in" / name)
            (HERE / "out" / name).rename(HERE / "in" / other)
        else:
            (HERE / "out" / name).rename(HERE / "in" / name)


swapping = threading.Thread(target=swap)
swapping.start()
(HERE / "ready").touch()
while not (HERE / "go").exists():
    os.sched_yield()
done.set()
swapping.join()
seen: list[list[int]] = []
for number, folder in enumerate(folders):
    os.mkdir("made", dir_fd=folder)
    data = os.read(queue, 4096)
    seen.append([watch for watch in struct.unpack_from("iIII", data)[:1] if watch == watches[number]])
(HERE / "said").write_text(json.dumps(seen == [[watch] for watch in watches]))
