"""Mounts that carry data of a session, and archives of shared memory, which never lead elsewhere."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.ground import separate_process
from holdfast.snapshots.checkpointer.layers import tmpfs
from holdfast.snapshots.checkpointer.layers.tmpfs import mounts
from holdfast.snapshots.checkpointer.wire.deadline import Deadline, Passed

MOUNTINFO = """\
500 480 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l
501 500 0:51 / /proc rw,nosuid - proc proc rw
502 500 0:52 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
503 502 0:53 / /dev/pts rw - devpts devpts rw
504 502 0:54 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k
505 501 0:55 / /proc/acpi ro,relatime - tmpfs tmpfs ro
506 500 0:56 / /sys/firmware ro,relatime - tmpfs tmpfs ro
507 500 8:1 /home/run /run/holdfast rw - ext4 /dev/sda rw
508 500 0:57 / /scratch rw,relatime - tmpfs tmpfs rw
509 500 0:58 / /a\\040b rw,relatime - tmpfs tmpfs rw
510 500 0:59 / /readonly ro,relatime - tmpfs tmpfs ro
511 500 0:60 /containers/1/hosts /etc/hosts rw,relatime - tmpfs tmpfs rw
512 500 0:60 /home/run/1 /run/holdfast rw,relatime - tmpfs tmpfs rw
"""


def test_shared_memory_is_carried() -> None:
    """Other content in memory is the engine's, or a mounted folder of the host."""
    assert mounts(MOUNTINFO.encode()) == ["/dev/shm"]


def test_shared_memory_of_somebody_else_is_not_carried() -> None:
    """A read-only mount cannot have changed; a part of a tmpfs is the host's."""
    for line in ("504 502 0:54 / /dev/shm ro - tmpfs shm rw", "504 502 0:54 /x /dev/shm rw - tmpfs shm rw"):
        assert mounts(line.encode()) == []


def test_odd_lines_are_passed_over() -> None:
    """A line that is not of the documented form names no mount."""
    assert mounts(b"nonsense\n\n1 2 - tmpfs\n") == []


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[int]:
    """A folder, in place of a tmpfs, with a file in it."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "file").write_bytes(b"kept")
    folder = os.open(tmp_path / "memory", os.O_RDONLY | os.O_DIRECTORY)
    yield folder
    os.close(folder)


def test_archives_that_tar_rejects_are_not_kept(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each existing socket: they come back in a different way, and a session can have a
    million."""
    monkeypatch.setattr(separate_process, "keep_capabilities", lambda *_: None)
    for number in range(2000):
        os.mknod(tmp_path / "memory" / f"{number:0200}", 0o140600)
    told: list[bytes] = []
    complaints = tmpfs._complaints

    def listen(tar: object, deadline: Deadline) -> bytes:
        told.append(complaints(tar, deadline))  # type: ignore[arg-type]
        return told[0]

    monkeypatch.setattr(tmpfs, "_complaints", listen)
    tmpfs._archive(memory, tmp_path / "kept.tar", Deadline(60))

    with tarfile.open(tmp_path / "kept.tar") as archive:
        assert archive.getnames() == [".", "./file"]
    assert 0 < len(told[0]) <= 4 * tmpfs._REASON


def test_an_archive_that_takes_too_long_is_given_up(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line that says what it was; tar does not continue."""
    monkeypatch.setattr(separate_process, "keep_capabilities", lambda *_: None)
    with pytest.raises(Passed, match="to keep its shared memory took longer than 1e-06 s"):
        tmpfs._archive(memory, tmp_path / "kept.tar", Deadline(1e-6))
    left = subprocess.run(["pgrep", "-x", "-P", str(os.getpid()), "tar"], capture_output=True, check=False)
    assert left.stdout == b""


def unpacked(archive: Path, target: Path) -> None:
    """Unpack a file into a folder."""
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with archive.open("rb") as file:
            tmpfs.unpack(file, root)
    finally:
        os.close(root)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder to unpack into, next to one that must stay untouched."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"untouched")
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_files_packed_by_tar_come_back(tmp_path: Path, target: Path) -> None:
    """Contents, holes, links, modes, times to the nanosecond, attributes, and names of any bytes."""
    source = tmp_path / "source"
    (source / "a" / "b").mkdir(parents=True)
    (source / "a" / "plain").write_bytes(b"x" * 100_000)
    (source / "a" / "program").write_bytes(b"")
    (source / "a" / "program").chmod(0o4755)
    with (source / "sparse").open("wb") as file:
        file.truncate(10 << 20)
        for at in (0, 3 << 20, (10 << 20) - 5):
            file.seek(at)
            file.write(b"data!")
    os.link(source / "a" / "plain", source / "hard")
    (source / "soft").symlink_to("/etc/passwd")
    os.mkfifo(source / "fifo", 0o640)
    Path(os.fsdecode(os.fsencode(source) + b"/\xff\xfe name")).write_bytes(b"odd")
    os.setxattr(source / "hard", "user.word", b"\x00\xff")
    (source / "a" / "b").chmod(0o500)
    os.utime(source / "a", ns=(1, 1_700_000_000_123_456_789))
    packed = tmp_path / "packed.tar"
    made = ["tar", "--numeric-owner", "--xattrs", "--create", "--sparse"]
    made += [f"--file={packed}", "-C", str(source), "."]
    subprocess.run(made, check=True)

    unpacked(packed, target)

    compared = subprocess.run(
        ["diff", "-r", "--no-dereference", "--exclude=fifo", source, target], capture_output=True, text=True
    )
    assert (compared.returncode, compared.stdout) == (0, "")
    for path in source.rglob("*"):
        first, second = path.lstat(), (target / path.relative_to(source)).lstat()
        assert (first.st_mode, first.st_uid, first.st_mtime_ns) == (
            second.st_mode,
            second.st_uid,
            second.st_mtime_ns,
        ), path
    assert (target / "sparse").stat().st_blocks <= (source / "sparse").stat().st_blocks + 8
    assert (target / "hard").stat().st_ino == (target / "a" / "plain").stat().st_ino
    assert os.getxattr(target / "hard", "user.word") == b"\x00\xff"


def _link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


def _file(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = 4
    return member


def _device(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.devmajor, member.devminor = tarfile.BLKTYPE, 8, 0
    return member


def _folder(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member


HOSTILE: dict[str, list[tarfile.TarInfo]] = {
    "through a link": [_link("x", "../outside"), _file("x/file")],
    "through an absolute link": [_link("x", "/proc/self/root"), _file("x/tmp/evil")],
    "through a link to a link": [_link("y", "../outside"), _link("x", "y"), _file("x/new")],
    "up": [_file("../outside/new")],
    "up from within": [_folder("x"), _file("x/../../outside/new")],
    "over a link": [_link("x", "../outside/file"), _file("x")],
    "a folder through a link": [_link("x", "../outside"), _folder("x/new")],
    "the mode of a folder behind a link": [_link("x", "../outside"), _folder("x")],
    "a hard link up": [_link("x", "../outside/file", tarfile.LNKTYPE)],
    "a hard link through a link": [_link("y", "../outside"), _link("x", "y/file", tarfile.LNKTYPE)],
    "a device": [_device("x")],
    "the root as a file": [_file(".")],
    "twice": [_file("x"), _file("x")],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_made_elsewhere(name: str, tmp_path: Path, target: Path) -> None:
    """Whatever the names in an archive are: it is refused, and all around is as it was."""
    packed = tmp_path / "packed.tar"
    with tarfile.open(packed, "w") as archive:
        for member in HOSTILE[name]:
            archive.addfile(member, io.BytesIO(b"evil") if member.isreg() else None)
    before = (tmp_path / "outside").stat()

    with pytest.raises(OSError, match=r".+"):
        unpacked(packed, target)

    assert (tmp_path / "outside").stat() == before
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]
    assert (tmp_path / "outside" / "file").read_bytes() == b"untouched"
    assert (tmp_path / "outside" / "file").stat().st_nlink == 1


def test_a_link_that_appears_while_it_is_unpacked_is_not_followed(tmp_path: Path, target: Path) -> None:
    """As a hostile process could put one there between two files of a folder."""
    packed = tmp_path / "packed.tar"
    with tarfile.open(packed, "w") as archive:
        archive.addfile(_folder("x"))
        for number in range(3):
            archive.addfile(_file(f"x/p{number}"), io.BytesIO(b"evil"))
    make: Callable[..., None] = tmpfs._make

    def swap(*arguments: object) -> None:
        make(*arguments)
        if not (target / "x").is_symlink():
            (target / "x").rename(target / "y")
            (target / "x").symlink_to("../outside")

    tmpfs._make = swap  # type: ignore[assignment]
    try:
        with pytest.raises(OSError, match=r".+"):
            unpacked(packed, target)
    finally:
        tmpfs._make = make
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]


def test_an_archive_that_is_cut_short_is_an_error(tmp_path: Path, target: Path) -> None:
    """Half of a file is never taken for all of it."""
    packed = tmp_path / "packed.tar"
    with tarfile.open(packed, "w") as archive:
        member = _file("x")
        member.size = 100_000
        archive.addfile(member, io.BytesIO(bytes(100_000)))
    packed.write_bytes(packed.read_bytes()[:50_000])

    with pytest.raises((OSError, tarfile.TarError)):
        unpacked(packed, target)
