"""Archives of shared memory: what GNU tar packs comes back, and nothing gets anywhere else."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.layers import unpack


def unpacked(archive: Path, target: Path) -> None:
    """Unpack a file into a folder."""
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with archive.open("rb") as file:
            unpack.unpack(file, root)
    finally:
        os.close(root)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder to unpack into, beside one that nothing may reach."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"untouched")
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_what_tar_packs_comes_back(tmp_path: Path, target: Path) -> None:
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
    make: Callable[..., None] = unpack._make

    def swap(*arguments: object) -> None:
        make(*arguments)
        if not (target / "x").is_symlink():
            (target / "x").rename(target / "y")
            (target / "x").symlink_to("../outside")

    unpack._make = swap  # type: ignore[assignment]
    try:
        with pytest.raises(OSError, match=r".+"):
            unpacked(packed, target)
    finally:
        unpack._make = make
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
