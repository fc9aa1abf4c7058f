"""A program: changes files of an overlay at random, keeps them many times, and compares each image with
them, and with its exported form.

    unshare --mount [--user --map-root-user] python3 overlay_model.py FOLDER SEED STEPS

Copies are made like a session's files, images on top of each other as the chain says, in folders as an
engine unpacks them. Says how many bytes the images have, how many whole ones would have had, and how many
layers the tallest one has.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import shutil
import stat
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from holdfast.snapshots.bundle import names_below
from holdfast.snapshots.bundle.squashed_layers import SquashedLayer
from holdfast.snapshots.checkpointer.layers import apart, apart_files, file_entry
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy
from holdfast.snapshots.layer.archive import LayerArchive
from holdfast.snapshots.layer.image import ExtendedImage
from holdfast.snapshots.layer.layer_chain import LayerChain

NAMES = ("a", "b", "c", "d", "e")
MOST = 12
"""Layers of an image."""
_libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, point: Path, options: str) -> None:
    if _libc.mount(kind.encode(), os.fsencode(point), kind.encode(), 0, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount of {point}")


def unmount(point: Path) -> None:
    if _libc.umount2(os.fsencode(point), 2):
        raise OSError(ctypes.get_errno(), f"umount of {point}")


class Model:
    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.userns = Path("/proc/self/uid_map").read_text().split()[2] != "4294967295"
        self.lower, self.upper, self.merged = folder / "lower", folder / "upper", folder / "merged"
        for each in (self.lower, self.upper, folder / "work", self.merged, folder / "images"):
            each.mkdir()
        self.root = self.lower
        for _ in range(40):
            self.change()
        self.root = self.merged
        more = ",userxattr" if self.userns else ""
        self.more = more
        places = f"lowerdir={self.lower},upperdir={self.upper},workdir={folder / 'work'}"
        mount("overlay", self.merged, places + more)
        self.private = "user.overlay." if self.userns else "trusted.overlay."
        self.held: list[tuple[mmap.mmap, int]] = []
        self.stacks: dict[str, list[Path]] = {}
        self.there: set[str] = set()
        self.images: list[tuple[list[Path], Path]] = []
        self.written = self.whole = 0

    # What a session does.

    def any(self, *kinds: str) -> Path | None:
        found = [path for path in sorted(self.root.rglob("*")) if not kinds or _kind(path) in kinds]
        return self.random.choice(found) if found else None

    def place(self) -> Path:
        folders = [self.root, *(path for path in sorted(self.root.rglob("*")) if _kind(path) == "folder")]
        names = (*NAMES, ".wh.x") if self.root != self.lower and self.random.random() < 0.1 else NAMES
        return self.random.choice(folders) / self.random.choice(names)

    def change(self) -> None:
        kinds = [self.write, self.write, self.write, self.again, self.again, self.folder_, self.folder_]
        kinds += [self.remove, self.remove, self.move, self.move, self.link, self.symlink, self.mode]
        if self.root != self.lower:
            kinds += [self.map, self.fifo, self.sparse, self.unmap, self.attribute, self.restore_name]
        with suppress(OSError):
            self.random.choice(kinds)()

    def data(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 10, 5000, 9000)))

    def write(self) -> None:
        path = self.place()
        if _kind(path) in ("", "file"):
            path.write_bytes(self.data())

    def again(self) -> None:
        """Bytes in place, unnoticeable by size and, since a program can set it back, time of writing."""
        if (path := self.any("file")) and (size := path.stat().st_size):
            before = path.stat()
            with path.open("r+b") as file:
                file.seek(self.random.randrange(size))
                file.write(b"!" * self.random.choice((1, 2)))
            os.truncate(path, size)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def folder_(self) -> None:
        self.place().mkdir()

    def remove(self) -> None:
        if path := self.any():
            shutil.rmtree(path) if _kind(path) == "folder" else path.unlink()

    def move(self) -> None:
        if path := self.any():
            target = self.place()
            try:
                path.rename(target)
            except OSError:  # a folder of the image, as `mv` does it
                shutil.move(path, target)

    def restore_name(self) -> None:
        """A folder away and back, perhaps over one that was removed: its files keep their inodes."""
        if (path := self.any("folder")) and path.parent != self.root:
            aside = self.root / "aside"
            path.rename(aside)
            shutil.rmtree(path.parent)
            path.parent.mkdir()
            aside.rename(path)

    def link(self) -> None:
        if path := self.any("file", "symlink", "fifo"):
            os.link(path, self.place(), follow_symlinks=False)

    def symlink(self) -> None:
        self.place().symlink_to(self.random.choice(NAMES))

    def mode(self) -> None:
        if path := self.any("file", "folder", "fifo"):
            path.chmod(self.random.choice((0o700, 0o755, 0o1777 if _kind(path) == "folder" else 0o640)))

    def attribute(self) -> None:
        if path := self.any("file", "folder"):
            os.setxattr(path, self.random.choice(("user.x", "user.a=b")), self.random.randbytes(3))

    def fifo(self) -> None:
        os.mkfifo(self.place())

    def sparse(self) -> None:
        path = self.place()
        if _kind(path) in ("", "file"):
            with path.open("wb") as file:
                file.truncate(3 << 20)
                file.seek(1 << 20)
                file.write(self.data())

    def map(self) -> None:
        if (path := self.any("file")) and path.stat().st_size:
            file = os.open(path, os.O_RDWR)
            self.held.append((mmap.mmap(file, 0), file))

    def unmap(self) -> None:
        if self.held:
            memory, file = self.held.pop(self.random.randrange(len(self.held)))
            memory.close()
            os.close(file)

    def write_mapped(self) -> None:
        for memory, file in self.held:
            if size := min(len(memory), os.fstat(file).st_size):
                memory[self.random.randrange(size)] = self.random.randrange(256)

    # What a capture does.

    def mapped(self) -> set[str]:
        found = set()
        for line in Path("/proc/self/maps").read_text().splitlines():
            words = line.split(None, 5)
            if len(words) == 6 and words[1][1] == "w" and words[1][3] == "s":
                found.add(words[5].removeprefix(f"{self.merged}/"))
        return found

    def keep(self, number: int) -> None:
        chain = LayerChain(self.folder / "chain", "container")
        copy = self.folder / "copy"
        base = chain.choose(lambda each: each.image in self.there, MOST)
        index = None
        if base is not None:
            index = self.folder / "below.json"
            chain.offer(index)
        first = LayerCopy(copy, self.private)
        first.first(self.upper, (), index)
        first.pause()
        for _ in range(self.random.choice((0, 0, 3))):
            self.change()
        self.write_mapped()
        last = LayerCopy(copy, self.private)
        last.resume()
        last.last(self.upper, self.mapped())
        last.save()
        archive = LayerArchive(copy)
        image = self.folder / "images" / str(number)
        image.mkdir()
        beside = self.folder / "beside" / str(number)
        beside.mkdir(parents=True)
        apart.write(beside, archive.apart, copy / file_entry.DATA)
        archives = self.folder / "archives"
        archives.mkdir(exist_ok=True)
        with (archives / str(number)).open("w+b") as file:
            for piece in archive.read():
                file.write(piece)
            self.written += file.tell()
            self.whole += archive.whole
            file.seek(0)
            self.unpack(file, image)
        stack = [image, *(self.stacks[base.image] if base is not None else ())]
        self.stacks[str(number)] = stack
        self.there.add(str(number))
        self.images.append((stack, beside))
        layers = (*(base.layers if base is not None else ()), str(number))
        chain.take(copy / file_entry.INDEX)
        chain.add(
            ExtendedImage(str(number), layers), written=archive.size, whole=archive.whole, grown=0, size=0
        )
        shutil.rmtree(copy)
        if self.random.random() < 0.1:  # the images of some snapshots are removed; their layers stay
            self.there.discard(self.random.choice(sorted(self.there)))

    def unpack(self, file: object, image: Path) -> None:
        """Make a layer's folder as an engine does."""
        opaque = f"{self.private}opaque"
        times = []
        with tarfile.open(fileobj=file, errors="surrogateescape") as archive:  # type: ignore[call-overload]
            for member in archive:
                path = image / member.name
                if not path.parent.is_dir():
                    raise AssertionError(f"{member.name} has no folder in its layer")
                if path.name == ".wh..wh..opq":
                    os.setxattr(path.parent, opaque, b"y")
                elif path.name.startswith(".wh."):
                    os.mknod(path.with_name(path.name[4:]), stat.S_IFCHR, 0)
                elif member.islnk():
                    os.link(image / member.linkname, path, follow_symlinks=False)
                else:
                    archive.extract(member, image, filter="fully_trusted")
                    for name, value in member.pax_headers.items():
                        if name.startswith("SCHILY.xattr."):
                            raw = value.encode("utf-8", "surrogateescape")
                            os.setxattr(path, name.removeprefix("SCHILY.xattr."), raw, follow_symlinks=False)
                    times.append((path, member))
        for path, member in reversed(times):
            when = _nanoseconds(member.pax_headers["mtime"])
            os.utime(path, ns=(when, when), follow_symlinks=False)

    def leave(self, stack: list[Path], beside: Path, expected: dict[str, object]) -> None:
        """Compare an image whose layers have become one, without anything that a session could not see."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            one, image = Path(scratch, "archive"), Path(scratch, "image")
            image.mkdir()
            archives = [self.folder / "archives" / each.name for each in stack]
            with one.open("w+b") as file:
                below = [names_below.of_folder(self.lower)]
                layer = SquashedLayer(archives, lambda names: names_below.shown(names, below))
                file.writelines(layer.read())
                file.seek(0)
                self.unpack(file, image)
            self.compare([image], beside, expected)
            with tarfile.open(one, errors="surrogateescape") as archive:
                for member in archive:
                    path = Path(member.name)
                    if not path.name.startswith(".wh."):
                        assert member.name in expected, f"{member.name} would leave"
                    if member.isreg() and not path.name.startswith(".wh."):
                        data = archive.extractfile(member)
                        assert data is not None
                        found = expected[member.name]
                        assert isinstance(found, tuple)
                        assert data.read() == found[-1], f"what {member.name} was would leave"

    def compare(self, stack: list[Path], beside: Path, expected: dict[str, object]) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            upper, work, point = (Path(scratch, name) for name in ("upper", "work", "point"))
            for each in (upper, work, point):
                each.mkdir()
            lowers = ":".join(map(str, (*stack, self.lower)))
            mount("overlay", point, f"lowerdir={lowers},upperdir={upper},workdir={work}{self.more}")
            try:
                root = os.open(point, os.O_PATH)
                with (beside / apart.DATA).open("rb") as data:
                    apart_files.make(root, apart.read(beside), data.fileno())
                os.close(root)
                found = shape(point)
            finally:
                unmount(point)
        wrong = {name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)}
        wrongly = [
            f"{name}: {found.get(name)!r:.300} instead of {expected.get(name)!r:.300}" for name in wrong
        ]
        assert not wrongly, "\n".join(wrongly[:5])


def _nanoseconds(text: str) -> int:
    seconds, _, rest = text.partition(".")
    return int(seconds) * 10**9 + int(rest or 0)


def _kind(path: Path) -> str:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return ""
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo"}
    return kinds.get(stat.S_IFMT(mode), "other")


def shape(root: Path) -> dict[str, object]:
    """Return everything that a session can see of its files, with which names are of one file."""
    first: dict[int, str] = {}
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        here = path.lstat()
        name = str(path.relative_to(root))
        same = first.setdefault(here.st_ino, name) if _kind(path) in ("file", "fifo") else name
        names = sorted(os.listxattr(path, follow_symlinks=False))
        attributes = {
            each: os.getxattr(path, each, follow_symlinks=False) for each in names if "overlay." not in each
        }
        content: object = None
        if _kind(path) == "file":
            content = path.read_bytes()
        elif _kind(path) == "symlink":
            content = path.readlink()
        time_ = None if _kind(path) == "folder" and not name else here.st_mtime_ns
        found[name] = (_kind(path), here.st_mode, time_, same, attributes, content)
    return found


def main() -> None:
    folder, seed, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    model = Model(folder, seed)
    expected = []
    for number in range(steps):
        for _ in range(model.random.choice((0, 1, 2, 5))):
            model.change()
        model.write_mapped()
        if model.random.random() < 0.7:
            time.sleep(0.06)  # what was written before counts as settled
        model.keep(number)
        expected.append(shape(model.merged))
        model.compare(*model.images[-1], expected[-1])
        model.leave(*model.images[-1], expected[-1])
    for image, was in list(zip(model.images, expected, strict=True))[:: max(1, steps // 8)]:
        model.compare(*image, was)
        model.leave(*image, was)
    sys.stdout.write(f"{model.written} {model.whole} {max(len(stack) for stack, _ in model.images)}\n")


if __name__ == "__main__":
    main()
