"""Watches folders, files and links by inotify(7), and reports what it reads: `python3 watching.py FOLDER`.

It makes `control/ready-N` in the folder, with N from 0. When `go-N` appears it writes `said-N`: the events
read since it was ready, and the events of its own changes.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
EVENT = struct.Struct("iIII")
ALL, DONT_FOLLOW = 0xFFF, 0x02000000
ATTRIB, CREATE = 0x4, 0x100
UNREAD = 20
MANY = 150
FOLDER = Path(sys.argv[1])
PROJECT = FOLDER / "project"


class Queue:
    """One inotify. Names of watches are ours."""

    def __init__(self) -> None:
        self.descriptor = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.names: dict[int, str] = {}

    def watch(self, path: str | Path, mask: int = ALL, name: str = "") -> None:
        found = LIBC.inotify_add_watch(self.descriptor, os.fsencode(path), mask)
        if found < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        self.names[found] = name or str(path)

    def read(self) -> list[tuple[str, int, str]]:
        """Return the events: name of the watch, or its number; mask; name of the file."""
        found: list[tuple[str, int, str]] = []
        while True:
            try:
                data = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return found
            while data:
                number, mask, _, length = EVENT.unpack_from(data)
                name = data[EVENT.size : EVENT.size + length].rstrip(b"\0").decode()
                found.append((self.names.get(number, str(number)), mask, name))
                data = data[EVENT.size + length :]


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


class Scene:
    """All that is watched. Empty until it is prepared."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.everything = self.prepare_everything()
        self.many = Queue()
        for number in range(MANY):
            self.many.watch(made(PROJECT / f"{number // 10}" / f"{number}"), name=str(number))
        self.unread = Queue()
        self.unread.watch(made(FOLDER / "unread"), CREATE, "unread")
        self.links = Queue()
        (FOLDER / "target").write_text("")
        (FOLDER / "link").symlink_to("target")
        self.links.watch(FOLDER / "link", ATTRIB | DONT_FOLLOW, "link")
        self.links.watch(FOLDER / "target", ATTRIB, "target")
        self.moved = self.prepare_moved()

    def prepare_everything(self) -> Queue:
        """Prepare the files a capture has to deal with: programs, shared memory, files without a name."""
        queue = Queue()
        gone = (made(FOLDER / "gone") / "file").open("w+")
        gone.write("deleted")
        gone.flush()
        (FOLDER / "gone" / "file").unlink()
        self.files["gone"] = gone
        Path("/dev/shm/kept").write_text("kept")
        for path in (
            "/",
            "/usr",
            "/etc",
            "/usr/bin",
            sys.executable,
            FOLDER / "gone",
            "/dev/shm",
            PROJECT.parent,
        ):
            queue.watch(path)
        return queue

    def prepare_moved(self) -> Queue:
        """Prepare files that were renamed since their watch began, have several names, or are in a layer of
        the image.
        """
        queue = Queue()
        queue.watch(made(FOLDER / "old" / "inner"), CREATE, "renamed")
        (FOLDER / "old").rename(FOLDER / "new")
        (FOLDER / "one").write_text("")
        queue.watch(FOLDER / "one", ATTRIB, "linked")
        os.link(FOLDER / "one", FOLDER / "two")
        queue.watch("/usr/share", CREATE, "image")
        queue.watch("/usr/share/doc", CREATE, "image, below")
        queue.watch("/etc/issue", ATTRIB, "changed")
        with Path("/etc/issue").open("a") as changed:
            changed.write("\n")
        odd = made(FOLDER / "a b\n\\é (deleted)")
        queue.watch(odd, CREATE, "odd name")
        self.odd = odd
        deep = FOLDER / "deep" / "/".join(["d" * 100] * 30)
        queue.watch(made(deep), CREATE, "deep")
        self.deep = deep
        return queue

    def quiet(self) -> None:
        """Read everything, so that only the intended events are unread."""
        for queue in (self.everything, self.many, self.links, self.moved, self.unread):
            queue.read()
        for number in range(UNREAD):
            (FOLDER / "unread" / f"{time.monotonic_ns()}-{number}").touch()

    def say(self, turn: int) -> dict[str, Any]:
        """Return the events read since `quiet`, followed by the events of its changes."""
        said: dict[str, Any] = {
            "everything": self.everything.read(),
            "many": self.many.read(),
            "unread": [(name, mask) for name, mask, _ in self.unread.read()],
            "links": self.links.read(),
            "moved": self.moved.read(),
        }
        for number in range(MANY):
            (PROJECT / f"{number // 10}" / f"{number}" / f"{turn}").mkdir()
        said["many after"] = [name for name, _, _ in self.many.read()]
        (FOLDER / "unread" / f"again-{turn}").touch()
        said["unread after"] = self.unread.read()
        os.utime(FOLDER / "link", follow_symlinks=False)
        os.utime(FOLDER / "target")
        said["links after"] = [name for name, _, _ in self.links.read()]
        for folder in (
            FOLDER / "new" / "inner",
            Path("/usr/share"),
            Path("/usr/share/doc"),
            self.odd,
            self.deep,
        ):
            (folder / f"made-{turn}").mkdir()
        os.utime(FOLDER / "two")
        os.utime("/etc/issue")
        said["moved after"] = [name for name, _, _ in self.moved.read()]
        return said


def main() -> None:
    (FOLDER / "control").mkdir(parents=True)
    scene = Scene()
    control = FOLDER / "control"
    turn = 0
    while True:
        scene.quiet()
        (control / f"ready-{turn}").touch()
        while not (control / f"go-{turn}").exists():
            time.sleep(0.02)
        (control / f"saying-{turn}").write_text(json.dumps(scene.say(turn)))
        (control / f"saying-{turn}").rename(control / f"said-{turn}")
        turn += 1


if __name__ == "__main__":
    main()
