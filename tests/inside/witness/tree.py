"""A witness that remembers a tree of files, and changes it in every possible way."""

from __future__ import annotations

import errno
import mmap
import os
import random
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from witness.status import Status

# Whether extended attributes and nanoseconds of times are expected to be in copies.
EXACT = True
FINEST = 1 if EXACT else 10**9


class Node:
    """A file as it should be."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)
        self.mode = 0o600
        self.label = b""
        self.modified = 0  # 0: not set by hand


class Remembered:
    """Files in a tree, and their expected state; in a copy, the effect of overlayfs on names of one file."""

    def __init__(self, folder: Path) -> None:
        self.top = folder
        self.choose = random.Random(2)
        self.nodes: dict[str, Node] = {}
        self.targets: dict[str, str] = {}
        self.pipes: set[str] = set()
        self.folders = ["", "a", "a/b", "c", "d"]
        self.serial = 0
        self.host = socket.gethostname()
        self.complaint = ""
        self.at_hand: list[Node] = []

    def look(self) -> str:
        """Return the errors; also the errors in a copy before its first change."""
        self._arrive()
        found, self.complaint = self.complaint or self.wrong(), ""
        return found

    def wrong(self, except_for: Sequence[Node] = ()) -> str:
        """Return the differences from memory; empty if there are none."""
        found: set[str] = set()
        for where, folders, files in os.walk(self.top):
            for name in (*folders, *files):
                found.add(str((Path(where) / name).relative_to(self.top)))
        expected = {*self.nodes, *self.targets, *self.pipes, *(name for name in self.folders if name)}
        if found != expected:
            return f"too many: {sorted(found - expected)}, missing: {sorted(expected - found)}"
        links: dict[int, int] = {}
        for node in self.nodes.values():
            links[id(node)] = links.get(id(node), 0) + 1
        for name, node in self.nodes.items():
            if node in except_for:
                continue
            if difference := self._differs(self.top / name, node, links[id(node)]):
                others = [each for each, same in self.nodes.items() if same is node and each != name]
                return f"{name}: {difference}; also called {', '.join(others) or 'nothing else'}"
        for name, target in self.targets.items():
            if str((self.top / name).readlink()) != target:
                return f"{name} leads to {(self.top / name).readlink()} instead of {target}"
        return ""

    def _differs(self, path: Path, node: Node, links: int) -> str:
        facts = path.lstat()
        content = path.read_bytes()
        if content != bytes(node.content):
            at = next(
                (i for i, (one, two) in enumerate(zip(content, node.content, strict=False)) if one != two), -1
            )
            return f"{len(content)} bytes instead of {len(node.content)}, the first other one at {at}"
        if stat.S_IMODE(facts.st_mode) != node.mode:
            return f"mode {facts.st_mode:o} instead of {node.mode:o}"
        # For a file of the image, overlayfs still counts names that were removed since.
        if facts.st_nlink < links:
            return f"{facts.st_nlink} names instead of {links}"
        if node.modified and facts.st_mtime_ns // FINEST != node.modified // FINEST:
            return f"modified at {facts.st_mtime_ns} instead of {node.modified}"
        if _label(path) != node.label:
            return f"labelled {_label(path)!r} instead of {node.label!r}"
        return ""

    def _arrive(self) -> None:
        """Check everything in a copy before the next change, except the file being changed at the capture.

        A name that was being written to at that time is kept apart from the others of its file.
        """
        if socket.gethostname() != self.host:
            self.host = socket.gethostname()
            self.complaint = self.complaint or self.wrong(except_for=self.at_hand)
            self._part_links()

    def _part_links(self) -> None:
        """Split links: in a copy overlayfs keeps names of one file together only until one of them is written
        to.
        """
        names: dict[int, list[str]] = {}
        for name, node in self.nodes.items():
            names.setdefault(id(node), []).append(name)
        for several in names.values():
            if len(several) > 1:
                for name in several:
                    node = self.nodes[name]
                    content, mode = bytes(node.content), node.mode
                    self._remove(name)
                    self._write(name, content).mode = mode
                    (self.top / name).chmod(mode)

    def _bytes(self, size: int) -> bytes:
        return self.choose.randbytes(size)

    def _name(self) -> str:
        name = self.choose.choice([name for name in self.nodes if name != "log"])
        self.at_hand.append(self.nodes[name])
        return name

    def _pick(self, *, filled: bool = False) -> tuple[Path, Node]:
        fits = range(1 if filled else 0, 10**6)
        names = [name for name, node in self.nodes.items() if name != "log" and len(node.content) in fits]
        name = self.choose.choice(names)
        self.at_hand.append(self.nodes[name])
        return self.top / name, self.nodes[name]

    def _new(self) -> str:
        self.serial += 1
        folder = self.choose.choice(self.folders)
        return f"{folder}/file{self.serial}".lstrip("/")

    def _write(self, name: str, data: bytes) -> Node:
        path = self.top / name
        path.write_bytes(data)
        path.chmod(0o600)
        self.nodes[name] = Node(data)
        return self.nodes[name]

    def _remove(self, name: str) -> None:
        if name in self.nodes:
            self.at_hand.append(self.nodes[name])
        (self.top / name).unlink()
        self.nodes.pop(name, None)
        self.targets.pop(name, None)
        self.pipes.discard(name)


class Tree(Remembered):
    """A tree of files that is changed in every possible way."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in self.folders:
            (folder / name).mkdir(exist_ok=True)
        for number in range(30):
            self._write(self._new(), self._bytes(200 * number))
        self.log = os.open(folder / "log", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self.nodes["log"] = Node(b"")
        self.changes = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]

    def step(self) -> str:
        """Change one thing; return a description."""
        self._arrive()
        self.at_hand.clear()
        change = self.choose.choice(self.changes)
        change()
        return str(change.__name__)

    def do_append(self) -> None:
        path, node = self._pick()
        data = self._bytes(self.choose.randrange(1, 3000))
        with path.open("ab") as file:
            file.write(data)
        node.content += data
        node.modified = 0

    def do_append_to_open_file(self) -> None:
        data = self._bytes(500)
        os.write(self.log, data)
        node = self.nodes["log"]
        node.content += data
        if len(node.content) > 100_000:
            os.ftruncate(self.log, 0)
            node.content.clear()

    def do_overwrite_in_place(self) -> None:
        path, node = self._pick(filled=True)
        at = self.choose.randrange(len(node.content))
        data = self._bytes(len(node.content) - at)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)
        node.content[at:] = data
        node.modified = 0

    def do_write_by_map(self) -> None:
        """Write without write(2), without msync(2), and without a mapping afterwards."""
        path, node = self._pick(filled=True)
        at = self.choose.randrange(len(node.content))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            view[at] ^= 0xFF
        node.content[at] ^= 0xFF
        node.modified = 0

    def do_overwrite_and_hide_it(self) -> None:
        """Keep the same size and time of modification."""
        path, node = self._pick(filled=True)
        facts = path.stat()
        data = self._bytes(len(node.content))
        with path.open("r+b") as file:
            file.write(data)
        node.content[:] = data
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        node.modified = facts.st_mtime_ns

    def do_replace(self) -> None:
        name = self._name()
        fresh = f"{name}.new"
        node = self._write(fresh, self._bytes(self.choose.randrange(5000)))
        (self.top / fresh).rename(self.top / name)
        del self.nodes[fresh]
        self.nodes[name] = node

    def do_exchange_places(self) -> None:
        one, two, three = self._name(), self._name(), self._new()
        if one == two:
            return
        (self.top / one).rename(self.top / three)
        (self.top / two).rename(self.top / one)
        (self.top / three).rename(self.top / two)
        self.nodes[one], self.nodes[two] = self.nodes[two], self.nodes[one]

    def do_link(self) -> None:
        name, new = self._name(), self._new()
        if len(self.nodes) < 60:
            os.link(self.top / name, self.top / new)
            self.nodes[new] = self.nodes[name]

    def do_truncate(self) -> None:
        path, node = self._pick()
        size = self.choose.randrange(20_000)
        os.truncate(path, size)
        node.content = node.content[:size].ljust(size, b"\0")
        node.modified = 0

    def do_make_sparse(self) -> None:
        """Write data, a hole of a megabyte, data."""
        name = self._new()
        node = self._write(name, b"begin")
        with (self.top / name).open("r+b") as file:
            file.seek(1 << 20)
            file.write(b"end")
        node.content = node.content.ljust(1 << 20, b"\0") + b"end"
        for other in [n for n in self.nodes if len(self.nodes[n].content) > 1 << 20][:-2]:
            self._remove(other)

    def do_delete(self) -> None:
        if len(self.nodes) > 20:
            self._remove(self._name())

    def do_delete_and_make_again(self) -> None:
        name = self._name()
        size = len(self.nodes[name].content)
        self._remove(name)
        self._write(name, self._bytes(size))

    def do_make(self) -> None:
        if len(self.nodes) < 60:
            self._write(self._new(), self._bytes(self.choose.randrange(8000)))

    def do_move_folder(self) -> None:
        old = self.choose.choice([name for name in self.folders if name])
        self.serial += 1
        new = f"folder{self.serial}"
        try:
            (self.top / old).rename(self.top / new)
        except OSError as error:
            if error.errno == errno.EXDEV:  # a folder of an image: overlayfs leaves that to the caller
                return
            raise

        def moved(name: str) -> str:
            return new + name[len(old) :] if name == old or name.startswith(f"{old}/") else name

        self.folders = [moved(name) for name in self.folders]
        self.nodes = {moved(name): node for name, node in self.nodes.items()}
        self.targets = {moved(name): target for name, target in self.targets.items()}
        self.pipes = {moved(name) for name in self.pipes}

    def do_remove_folder_and_make_again(self) -> None:
        self.serial += 1
        name = self.choose.choice([n for n in self.folders if n])
        inside = [n for n in (*self.nodes, *self.targets, *self.pipes) if n.startswith(f"{name}/")]
        if len(self.nodes) - len(inside) < 10 or any(n.startswith(f"{name}/") for n in self.folders):
            return
        for each in inside:
            self._remove(each)
        (self.top / name).rmdir()
        (self.top / name).mkdir()
        self._write(f"{name}/again{self.serial}", b"again")

    def do_chmod(self) -> None:
        path, node = self._pick()
        node.mode = self.choose.choice([0o600, 0o640, 0o755, 0o4711, 0o1600])
        path.chmod(node.mode)

    def do_label(self) -> None:
        if not EXACT:
            return
        path, node = self._pick()
        label = self._bytes(self.choose.randrange(1, 40))
        os.setxattr(path, "user.witness", label)
        node.label = label

    def do_unlabel(self) -> None:
        path, node = self._pick()
        if node.label:
            os.removexattr(path, "user.witness")
            node.label = b""

    def do_set_time(self) -> None:
        path, node = self._pick()
        moment = self.choose.randrange(10**18, 2 * 10**18)
        os.utime(path, ns=(moment, moment))
        node.modified = moment

    def do_symlink(self) -> None:
        name = self.choose.choice([*self.targets, self._new()]) if self.targets else self._new()
        if name in self.targets:
            (self.top / name).unlink()
        elif len(self.targets) > 5:
            return
        self.targets[name] = f"nowhere{self.choose.random()}"
        (self.top / name).symlink_to(self.targets[name])

    def do_fifo(self) -> None:
        if self.pipes:
            self._remove(next(iter(self.pipes)))
        else:
            name = self._new()
            os.mkfifo(self.top / name)
            self.pipes.add(name)


def _label(path: Path) -> bytes:
    try:
        return os.getxattr(path, "user.witness")
    except OSError:
        return b""


def files(folder: Path, status: Status) -> None:
    """Run all of `Tree`, compared as a whole every few changes."""
    tree = Tree(folder)
    done: list[str] = []
    while True:
        complaint = tree.look()
        status.round(f"{complaint} (after {', '.join(done)})" if complaint else "")
        done = [tree.step() for _ in range(8)]
