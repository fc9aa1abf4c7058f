"""A layer as the engine reads it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.layer.archive import LayerArchive


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / file_entry.DATA).write_bytes(b"....helloworld")
    return tmp_path


def read(folder: Path, *entries: FileEntry) -> tarfile.TarFile:
    file_entry.write(folder / file_entry.ENTRIES, list(entries))
    archive = LayerArchive(folder)
    packed = b"".join(archive.read())
    assert len(packed) == archive.size
    assert archive.digest == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    return tarfile.open(fileobj=io.BytesIO(packed), errors="surrogateescape")


def test_files_come_with_their_contents_and_attributes(folder: Path) -> None:
    """Times to the nanosecond, owners, modes, attributes of any bytes, names of any bytes."""
    item = FileEntry(
        "a/\udcff\n",
        file_entry.FILE,
        mode=0o4755,
        uid=70_000_000,
        gid=5,
        mtime=1_600_000_000_000_000_007,
        size=5,
        offset=4,
        attributes={"user.x": "\x00\xff=\n"},
    )
    with read(folder, FileEntry("a", file_entry.DIRECTORY, mode=0o1777), item) as archive:
        folder_, file = archive.getmembers()
        assert (folder_.name, folder_.isdir(), folder_.mode) == ("a", True, 0o1777)
        contents = archive.extractfile(file)
        assert contents is not None
        assert contents.read() == b"hello"
        assert (file.name, file.mode, file.uid, file.gid) == ("a/\udcff\n", 0o4755, 70_000_000, 5)
        assert file.pax_headers["mtime"] == "1600000000.000000007"
        assert file.pax_headers["SCHILY.xattr.user.x"] == "\x00\udcff=\n"


def test_deletions_are_names_of_their_own(folder: Path) -> None:
    """Beside the deleted name, or in the directory that hides what is below."""
    with read(
        folder,
        FileEntry("gone", file_entry.WHITEOUT),
        FileEntry("d", file_entry.DIRECTORY, opaque=True),
        FileEntry("d/gone", file_entry.WHITEOUT),
    ) as archive:
        assert archive.getnames() == [".wh.gone", "d", "d/.wh..wh..opq", "d/.wh.gone"]


def test_several_names_of_a_file_stay_one_file(folder: Path) -> None:
    """The first has the contents, the others refer to it."""
    first = FileEntry("a", file_entry.FILE, size=5, offset=4, group="7")
    second = FileEntry("b", file_entry.FILE, size=5, offset=4, group="7")
    with read(folder, first, second, FileEntry("c", file_entry.FILE, size=5, offset=9)) as archive:
        kinds = [(member.name, member.islnk(), member.linkname, member.size) for member in archive]
    assert kinds == [("a", False, "", 5), ("b", True, "a", 0), ("c", False, "", 5)]


def test_links_pipes_and_devices_have_no_contents(folder: Path) -> None:
    """Their kind is all they have."""
    with read(
        folder,
        FileEntry("l", file_entry.LINK, target="../x"),
        FileEntry("p", file_entry.FIFO),
        FileEntry("c", file_entry.CHARACTER, device=os.makedev(1, 3)),
    ) as archive:
        link, pipe, device = archive.getmembers()
    assert (link.issym(), link.linkname) == (True, "../x")
    assert pipe.isfifo()
    assert (device.ischr(), device.devmajor, device.devminor) == (True, 1, 3)
