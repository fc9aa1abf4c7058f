"""The files next to an image, from the list to the files of a copy."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.layers import apart, apart_files, file_entry
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.layer.archive import LayerArchive

DEEP = "/".join(["p" * 50] * 120)


def kept(upper: Path, tmp_path: Path) -> Path:
    """Copy a layer as a capture does, and return a folder with its archive and the separate files."""
    copy = LayerCopy(tmp_path / "copy", "trusted.overlay.")
    copy.first(upper)
    copy.last(upper, ())
    copy.save()
    folder = tmp_path / "snapshot"
    folder.mkdir()
    archive = LayerArchive(tmp_path / "copy")
    packed = b"".join(archive.read())
    assert archive.digest == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    (folder / "layer.tar").write_bytes(packed)
    apart.write(folder, archive.apart, tmp_path / "copy" / file_entry.DATA)
    return folder


def made(folder: Path, root: Path) -> None:
    """Make a copy's files: the image's as an engine does, then the others."""
    root.mkdir()
    with tarfile.open(folder / "layer.tar") as archive:
        for member in archive:
            if "/.wh." not in f"/{member.name}":
                archive.extract(member, root, filter="fully_trusted")
    descriptor = os.open(root, os.O_PATH)
    with (folder / apart.DATA).open("rb") as data:
        apart_files.make(descriptor, apart.read(folder), data.fileno())
    os.close(descriptor)


def names(folder: Path) -> list[str]:
    with tarfile.open(folder / "layer.tar") as archive:
        return archive.getnames()


def test_files_with_holes_are_as_they_were(tmp_path: Path) -> None:
    """Names, contents, their space on the disk; the image only hides the earlier ones."""
    upper = tmp_path / "upper"
    upper.mkdir()
    with (upper / "map").open("wb") as file:
        file.write(b"begin")
        file.seek(3 << 30)
        file.write(b"middle")
        file.truncate(6 << 30)
    (upper / "again").hardlink_to(upper / "map")
    os.utime(upper / "map", ns=(5, 7))
    (upper / "small").write_bytes(b"x" * 70_000)
    os.truncate(upper / "small", 200_000)
    folder = kept(upper, tmp_path)
    assert sorted(names(folder)) == [".wh.again", ".wh.map", "small"]
    assert (folder / "layer.tar").stat().st_size < 1 << 20
    assert (folder / apart.DATA).stat().st_size < 1 << 20
    made(folder, tmp_path / "root")
    copied = tmp_path / "root" / "map"
    assert copied.samefile(tmp_path / "root" / "again")
    assert (copied.stat().st_size, copied.stat().st_mtime_ns) == (6 << 30, 7)
    assert copied.stat().st_blocks <= (upper / "map").stat().st_blocks
    with copied.open("rb") as file:
        assert file.read(5) == b"begin"
        file.seek(3 << 30)
        assert file.read(8) == b"middle\0\0"
    assert (tmp_path / "root" / "small").read_bytes() == (upper / "small").read_bytes()


def test_names_that_images_reserve_are_as_they_were(tmp_path: Path) -> None:
    """And everything below them; the folder that has them keeps its time."""
    upper = tmp_path / "upper"
    (upper / "folder" / ".wh.cache" / "sub").mkdir(parents=True)
    (upper / "folder" / ".wh.cache" / "sub" / "file").write_text("inside")
    (upper / "folder" / ".wh.cache" / "sub" / "pipe").symlink_to("/nowhere")
    os.mkfifo(upper / "folder" / ".wh.cache" / "fifo", 0o640)
    (upper / "folder" / "plain").write_text("plain")
    (upper / "folder" / ".wh.plain").hardlink_to(upper / "folder" / "plain")
    os.link(upper / "folder" / ".wh.cache" / "fifo", upper / "again")
    (upper / ".wh..wh..opq").write_text("top")
    os.utime(upper / "folder", ns=(5, 1_500_000_000_000_000_000))
    (upper / "folder" / ".wh.cache").chmod(0o1770)
    folder = kept(upper, tmp_path)
    assert sorted(names(folder)) == [".wh.again", "folder", "folder/.wh.plain"]
    made(folder, tmp_path / "root")
    root = tmp_path / "root"
    assert (root / "folder" / ".wh.cache" / "sub" / "file").read_text() == "inside"
    assert (root / "folder" / ".wh.cache" / "sub" / "pipe").readlink() == Path("/nowhere")
    assert (root / "folder" / ".wh.cache" / "fifo").is_fifo()
    assert (root / "again").samefile(root / "folder" / ".wh.cache" / "fifo")
    assert (root / "folder" / ".wh.cache").stat().st_mode & 0o7777 == 0o1770
    assert (root / "folder" / "plain").samefile(root / "folder" / ".wh.plain")
    assert (root / ".wh..wh..opq").read_text() == "top"
    assert (root / "folder").stat().st_mtime_ns == 1_500_000_000_000_000_000


def test_names_of_one_file_are_noted_as_far_as_copies_make_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open files, pipes, and the last written ones; the image has all of it in any case."""
    upper = tmp_path / "upper"
    upper.mkdir()
    for number, name in enumerate(("old", "large", "new", "link_remap.1")):
        (upper / name).write_text("12" if name == "large" else "1")
        os.utime(upper / name, (number, 0 if name == "link_remap.1" else number))
        (upper / f"{name} again").hardlink_to(upper / name)
    os.mkfifo(upper / "pipe")
    os.utime(upper / "pipe", (0, 0))
    os.link(upper / "pipe", upper / "pipe again")
    (upper / "single").write_text("")
    monkeypatch.setattr(apart, "MOST_SHARED", 3)
    folder = kept(upper, tmp_path)
    assert set(names(folder)) == {path.name for path in upper.iterdir()}
    found = apart.read(folder)
    assert {item.kind for item in found} == {file_entry.SAME}
    expected = {f"{name}{more}" for name in ("link_remap.1", "pipe", "new") for more in ("", " again")}
    assert {item.path for item in found} == expected
    made(folder, tmp_path / "root")
    for name in ("link_remap.1", "pipe", "new"):
        assert (tmp_path / "root" / name).samefile(tmp_path / "root" / f"{name} again")
        assert (tmp_path / "root" / name).stat().st_mtime_ns == (upper / name).stat().st_mtime_ns


def test_only_the_same_file_takes_a_names_place(tmp_path: Path) -> None:
    """Whatever a list from elsewhere says: another file, a link or a folder stays."""
    (tmp_path / "first").write_text("1")
    (tmp_path / "longer").write_text("12")
    (tmp_path / "link").symlink_to("first")
    (tmp_path / "folder").mkdir()
    descriptor = os.open(tmp_path, os.O_PATH)
    for name in ("longer", "link", "folder"):
        listed = [FileEntry("first", file_entry.SAME, group="7"), FileEntry(name, file_entry.SAME, group="7")]
        with pytest.raises(OSError, match="is not the same as 'first'"):
            apart_files.make(descriptor, listed, -1)
    os.close(descriptor)
    assert (tmp_path / "longer").read_text() == "12"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder").is_dir()


@contextmanager
def deep_below(root: Path, *, make: bool = False) -> Iterator[int]:
    """Yield a descriptor of the deepest folder below a root."""
    here = os.open(root, os.O_RDONLY)
    for part in DEEP.split("/"):
        if make:
            os.mkdir(part, dir_fd=here)
        above, here = here, os.open(part, os.O_RDONLY, dir_fd=here)
        os.close(above)
    yield here
    os.close(here)


def test_trees_deeper_than_a_path_can_say_are_as_they_were(tmp_path: Path) -> None:
    """An engine's unpacker fails beyond PATH_MAX; they are made step by step."""
    upper = tmp_path / "upper"
    upper.mkdir()
    with deep_below(upper, make=True) as here:
        file = os.open("down", os.O_CREAT | os.O_WRONLY, dir_fd=here)
        os.write(file, b"there")
        os.close(file)
    folder = kept(upper, tmp_path)
    assert max(map(len, names(folder))) < 4096
    assert len(names(folder)) < 120
    made(folder, tmp_path / "root")
    with deep_below(tmp_path / "root") as here:
        file = os.open("down", os.O_RDONLY, dir_fd=here)
        assert os.read(file, 9) == b"there"
        os.close(file)


def test_attributes_and_times_that_archives_cannot_say_are_as_they_were(tmp_path: Path) -> None:
    """Names with `=`, empty values, times before 1970 and their fractions."""
    upper = tmp_path / "upper"
    upper.mkdir()
    file = upper / "file"
    file.write_text("x")
    attributes = {"user.a=b": b"val", "user.empty": b"", "user.plain": b"p\0\xff"}
    for name, value in attributes.items():
        os.setxattr(file, name, value)
    os.utime(file, ns=(0, -1_750_000_000))
    folder = kept(upper, tmp_path)
    with tarfile.open(folder / "layer.tar", errors="surrogateescape") as archive:
        headers = dict(archive.getmember("file").pax_headers)
    del headers["hdrcharset"]
    assert headers == {"mtime": "-1.750000000", "SCHILY.xattr.user.plain": "p\0\udcff"}
    made(folder, tmp_path / "root")
    copied = tmp_path / "root" / "file"
    assert copied.stat().st_mtime_ns == -1_750_000_000
    # The archive's own are set by the engine, which this test is not.
    assert {name: os.getxattr(copied, name) for name in os.listxattr(copied)} == {
        name: attributes[name] for name in ("user.a=b", "user.empty")
    }


def test_devices_that_no_image_can_have_are_refused_by_name() -> None:
    """They can only be of an image that was not made by an engine."""
    with pytest.raises(OSError, match=r"'/dev/\.wh\.null'"):
        apart.divided([FileEntry("dev/.wh.null", file_entry.CHARACTER)])


def test_a_socket_finds_its_name_free() -> None:
    """Whatever the layers below have there."""
    layer, beside = apart.divided([FileEntry("s", file_entry.SOCKET, group="7")])
    assert (layer, beside) == ([FileEntry("s", file_entry.WHITEOUT)], [])


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "../out", "kind": "file"},
        {"path": "/etc/passwd", "kind": "file"},
        {"path": "a//b", "kind": "file"},
        {"path": "", "kind": "directory"},
        {"path": "a\0b", "kind": "file"},
        {"path": "a", "kind": "character"},
        {"path": "a", "kind": "whiteout"},
        {"path": "a", "kind": "file", "size": -1},
        {"path": "a", "kind": "file", "offset": -1},
        {"path": "a", "kind": "file", "mode": "x"},
        {"path": "a", "kind": "file", "mtime": 1.5},
        {"path": "a", "kind": "file", "size": 5, "holes": [[0, 9]]},
        {"path": "a", "kind": "file", "size": 5, "holes": [[2, 2], [1, 1]]},
        {"path": "a", "kind": "file", "attributes": {"user.a": 5}},
        {"path": "a", "kind": "file", "attributes": [5]},
        {"path": 5, "kind": "file"},
        {"path": "a"},
        {"path": "a", "kind": "file", "more": 1},
        5,
    ],
)
def test_lists_that_no_capture_writes_are_refused(tmp_path: Path, entry: Any) -> None:
    """It can be from a bundle that was made by hand."""
    (tmp_path / apart.LIST).write_text(json.dumps({"entries": [entry]}))
    with pytest.raises(OSError, match="cannot be read"):
        apart.read(tmp_path)


def test_nothing_leads_out_of_the_copy(tmp_path: Path) -> None:
    """A link in the image is not followed, and a file that is there is not opened."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "there").symlink_to(outside / "file")
    descriptor = os.open(root, os.O_PATH)
    data = os.open(os.devnull, os.O_RDONLY)
    for item in (
        FileEntry("link/new", file_entry.FILE, mode=0o644),
        FileEntry("there", file_entry.FILE, mode=0o644),
        FileEntry("link/new", file_entry.DIRECTORY),
    ):
        with pytest.raises(OSError, match=r"link|there|exists"):
            apart_files.make(descriptor, [item], data)
    assert list(outside.iterdir()) == []
    touched = FileEntry("there", file_entry.TOUCH, mtime=5)
    (outside / "file").write_text("x")
    apart_files.make(descriptor, [touched], data)
    assert (outside / "file").stat().st_mtime_ns != 5
    assert (root / "there").lstat().st_mtime_ns == 5
