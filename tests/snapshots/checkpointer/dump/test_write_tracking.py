"""Pages taken from the last snapshot equal the memory: captures of a program that changes itself.

The guard makes twins of the program and has its writes noted as in a capture, driven by a small program in
place of CRIU. Pages that CRIU would write in addition to heaps are left out: its images have no pages at
first.

HOLDFAST_TRACKING_ROUNDS and HOLDFAST_TRACKING_SEED: the number of captures, and their contents.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

import pytest
from tests.snapshots.checkpointer.dump import plain_messages

from holdfast.images.build import PACKAGE

plain_messages.install()

from pycriu.images import pagemap_pb2  # noqa: E402

from holdfast.snapshots.checkpointer.carried import heaps  # noqa: E402
from holdfast.snapshots.checkpointer.criu import criu_images, earlier_images  # noqa: E402
from holdfast.snapshots.checkpointer.dump import twins, write_tracking  # noqa: E402
from holdfast.snapshots.checkpointer.record import earlier_names, page_ranges  # noqa: E402
from holdfast.snapshots.checkpointer.restore import flat_memory  # noqa: E402

GUARD = PACKAGE / "snapshots" / "checkpointer" / "guard"
PROGRAMS = Path(__file__).parents[3] / "inside" / "tracking"
ROUNDS = int(os.environ.get("HOLDFAST_TRACKING_ROUNDS", "10"))
SEED = int(os.environ.get("HOLDFAST_TRACKING_SEED", "1"))
PAGE = heaps.PAGE
_SUBREAPER = 36
_USERFAULTFD = 323
MAGIC = criu_images._magic("pagemap")


def _supported() -> bool:
    """Return whether this kernel notes writes (Linux 6.7), and this user has permission to ask for it."""
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return os.geteuid() == 0 and release >= (6, 7) and os.uname().machine == "x86_64"


pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(not _supported(), reason="needs Linux 6.7 on x86-64, and root"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    parts = [GUARD / f"guard_{name}.c" for name in ("twins", "heaps", "pages", "control")]
    for name, more in (("changing", ["-lpthread"]), ("stopping", [f"-I{GUARD}", *map(str, parts), "-ldl"])):
        words = [
            "gcc",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            folder / name,
            PROGRAMS / f"{name}.c",
            *more,
        ]
        subprocess.run([*map(str, words)], check=True)
    return folder


class Captures:
    """Captures of one program into folders of their own, each on top of the previous one."""

    def __init__(self, built: Path, folder: Path, pid: int, chance: random.Random) -> None:
        self._built = built
        self.folder = folder
        self.pid = pid
        self._chance = chance
        self.count = 0
        self.unwritten = 0

    def take(self, *, ends_well: bool = True) -> dict[int, bytes]:
        """Take one; return the contents of the heaps, by their addresses."""
        since = f"{self.count:012x}"
        self.count += 1
        images = self.folder / f"{self.count:012x}"
        images.mkdir()
        self._begin_images(images)
        tracked = write_tracking.taken("c" * 64, since)
        if tracked and not earlier_images.may_build_on(self.folder / since):
            for memory in tracked.values():
                memory.close()
            tracked = {}
        with closing(twins.Twins(os.getpid(), wanted=True, tracking=True, tracked=tracked)) as taken:
            taken.look(self.pid)
            truth = self._captured(taken, images)
            if taken.based:
                earlier_images.link(images, self.folder / since, taken.based)
            self.unwritten = sum(map(page_ranges.size, taken.based.values()))
            if ends_well:
                write_tracking.leave("c" * 64, images.name, taken.tracked())
        return truth

    def _begin_images(self, images: Path) -> None:
        criu_images.write(images / f"pagemap-{self.pid}.img", MAGIC, [pagemap_pb2.pagemap_head(pages_id=1)])
        (images / "pages-1.img").write_bytes(b"")

    def _captured(self, taken: twins.Twins, images: Path) -> dict[int, bytes]:
        # As CRIU, it inherits the list at its number.
        driver = subprocess.Popen(
            [self._built / "stopping", str(self.pid)],
            env={**os.environ, **taken.environment},
            pass_fds=taken.handles,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert driver.stdin is not None
        assert driver.stdout is not None
        with driver, suppress(BrokenPipeError):
            assert driver.stdout.readline() == "stopped\n"
            taken.choose()
            _go_on(driver.stdin)
            assert driver.stdout.readline() == "made\n"
            taken.take(os.getpid(), driver.pid, images, lambda: None)
            truth = {
                heap.start: _memory(self.pid, heap.start, heap.end)
                for source in taken._sources.values()
                for heap in source.heaps.heaps
            }
            _go_on(driver.stdin)
            assert driver.stdout.readline() == "gone on\n"
            if self._chance.random() < 0.5:
                _poke(self.pid, truth, self._chance)
            taken.copy(images)
            _go_on(driver.stdin)
        for source in taken._sources.values():
            if source.pid != source.process:
                os.waitpid(source.pid, 0)
        return truth

    def restored(self, number: int, truth: dict[int, bytes]) -> dict[int, bytes]:
        """Return the contents of these addresses in the images of a capture."""
        images = self.folder / f"{number:012x}"
        return {start: _read(images, self.pid, start, len(data)) for start, data in truth.items()}


def _go_on(stream: IO[str]) -> None:
    stream.write("\n")
    stream.flush()


def _memory(pid: int, start: int, end: int) -> bytes:
    """Return memory of a stopped process; zeros where a missing page is protected from it."""
    file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        return os.pread(file, end - start, start)
    finally:
        os.close(file)


def _poke(pid: int, truth: dict[int, bytes], chance: random.Random) -> None:
    """Write into another process while it runs."""
    file = os.open(f"/proc/{pid}/mem", os.O_WRONLY)
    try:
        for start, data in truth.items():
            at = start + chance.randrange(len(data) // PAGE) * PAGE
            with suppress(OSError):
                os.pwrite(file, os.urandom(16), at + chance.randrange(PAGE - 16))
    finally:
        os.close(file)


def _read(images: Path, pid: int, start: int, size: int) -> bytes:
    """Read memory in images as CRIU does, which follows entries to its parent."""
    found = bytearray(size)
    wanted = [(start, start + size)]
    for captures in range(earlier_names.MOST + 1):
        path = images / earlier_names.named(captures, f"pagemap-{pid}.img")
        if not wanted:
            break
        _, (head, *entries) = criu_images.read(path)
        pages = (images / earlier_names.named(captures, f"pages-{head.pages_id}.img")).read_bytes()
        position, missing, end = 0, [], 0
        for entry in entries:
            assert entry.vaddr >= end, "CRIU refuses entries that are not in order"
            end = entry.vaddr + entry.nr_pages * PAGE
            whole = [(entry.vaddr, entry.vaddr + entry.nr_pages * PAGE)]
            here = page_ranges.common(whole, wanted)
            if entry.flags & heaps.IN_EARLIER:
                missing += here
                continue
            for first, last in here:
                at = position + first - entry.vaddr
                found[first - start : last - start] = pages[at : at + last - first]
            position += entry.nr_pages * PAGE
        if captures:
            assert page_ranges.size(wanted) == sum(
                page_ranges.size(page_ranges.common(wanted, [(one.vaddr, one.vaddr + one.nr_pages * PAGE)]))
                for one in entries
            ), "CRIU would not find pages of its parent"
        wanted = page_ranges.joined(missing)
    return bytes(found)


@pytest.fixture
def captures(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Captures]:
    monkeypatch.setattr(write_tracking, "STATE", tmp_path / "written")
    monkeypatch.setattr(heaps, "LEAST", 1 << 18)
    monkeypatch.setattr(heaps, "LEAST_OF_PROCESS", 2 << 20)
    (tmp_path / "snapshots").mkdir()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # as a supervisor, this process gets the twins
    program = subprocess.Popen([built / "changing", str(SEED)], stdout=subprocess.PIPE)
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        yield Captures(built, tmp_path / "snapshots", program.pid, random.Random(SEED))
    finally:
        program.kill()
        program.wait()
        if program.stdout is not None:
            program.stdout.close()
        ctypes.CDLL(None).prctl(_SUBREAPER, 0)
        write_tracking.taken("c" * 64, "")


def _check_flat(kept: Path, pid: int, truth: dict[int, bytes], images: Path) -> None:
    """Compare each page of the only image that a restore makes, half of whose heaps wait."""
    images.mkdir()
    waiting = [(start, start + len(data)) for start, data in sorted(truth.items())[::2]]
    memory = flat_memory.FlatMemory(kept, str(pid))
    pages = images / f"pages-{memory.pages_id}.img"
    os.link(kept / pages.name, pages)
    with closing(flat_memory.WaitingPages()) as places:
        memory.marked(waiting).write(images, places)
        listed: dict[int, bytes] = {}
        if number := places.environment.get("HOLDFAST_PAGES"):
            lines = os.pread(int(number), 1 << 26, 0).decode().splitlines()
            for _, at, size, file, position in (map(int, line.split()) for line in lines):
                data = os.pread(file, size, position)
                assert len(data) == size
                listed |= {at + page: data[page : page + PAGE] for page in range(0, size, PAGE)}
        _, (_, *entries) = criu_images.read(images / f"pagemap-{pid}.img")
        found = {start: bytearray(len(data)) for start, data in truth.items()}
        data, at = pages.read_bytes(), 0
        for page in (one.vaddr + page * PAGE for one in entries for page in range(one.nr_pages)):
            start = max((start for start in found if start <= page), default=None)
            assert at not in listed or any(first <= page < last for first, last in waiting)
            if start is not None and page - start < len(found[start]):
                found[start][page - start : page - start + PAGE] = listed.get(at, data[at : at + PAGE])
            at += PAGE
    assert found == truth
    shutil.rmtree(images)


def test_every_page_of_every_copy_is_unchanged(
    captures: Captures, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever threads, children, other processes and the kernel do; whenever the holder is killed."""
    chance = random.Random(SEED)
    saved = 0
    for _ in range(ROUNDS):
        monkeypatch.setattr(twins, "READ_AT_ONCE", chance.choice([0, 1 << 40]))
        truth = captures.take(ends_well=chance.random() < 0.9)
        restored = captures.restored(captures.count, truth)
        assert truth
        for start, data in truth.items():
            wrong = [
                at
                for at in range(0, len(data), PAGE)
                if data[at : at + PAGE] != restored[start][at : at + PAGE]
            ]
            assert wrong == [], f"{start:x}: {len(wrong)} pages differ at capture {captures.count}"
        _check_flat(captures.folder / f"{captures.count:012x}", captures.pid, truth, tmp_path / "flat")
        saved += captures.unwritten
        shutil.rmtree(captures.folder / f"{captures.count - 1:012x}", ignore_errors=True)
        if chance.random() < 0.15:
            _end_holder()
        time.sleep(chance.random() * 0.2)
    assert saved > 0, "nothing was ever taken from an earlier snapshot"


def test_a_scan_has_each_page_once() -> None:
    """Also of more regions than the kernel counts at a time, or than fit into one answer."""
    pages = 20_000
    library = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, pages * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[:] = b"x" * len(memory)
    descriptor = library.syscall(_USERFAULTFD, os.O_CLOEXEC | 1)
    with closing(write_tracking.TrackedMemory(os.getpid(), 0, descriptor)) as tracked:
        fcntl.ioctl(descriptor, 0xC018AA3F, struct.pack("3Q", 0xAA, 1 << 15, 0))  # UFFDIO_API, WP_ASYNC
        tracked.protect(start, start + len(memory))
        for page in range(0, pages, 2):
            memory[page * PAGE] = 1
        even = [(start + page * PAGE, start + (page + 1) * PAGE) for page in range(0, pages, 2)]
        odd = [(first + PAGE, last + PAGE) for first, last in even]
        with closing(write_tracking.PageScan(os.getpid())) as scan:
            assert scan.unwritten(start, start + len(memory)) == odd
            assert scan.take_written(start, start + len(memory)) == even
            assert scan.take_written(start, start + len(memory)) == []
            tracked.close()
            with pytest.raises(write_tracking.NotTracked):
                scan.unwritten(start, start + len(memory))


def _end_holder() -> None:
    for path in write_tracking.STATE.glob("*.json"):
        os.kill(json.loads(path.read_text())["holder"], signal.SIGKILL)
