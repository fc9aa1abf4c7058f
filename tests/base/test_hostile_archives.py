"""Every reader of archives against every archive of an attacker: nothing is made elsewhere, and one error.

Readers whose archives come from outside are in one table; `test_bounded_tar.py` finds code that reads
archives without the one reader.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast.base import bounded_tar
from holdfast.errors import HoldfastError
from holdfast.runtime.files import tar_streams, zip_archives
from holdfast.runtime.files.file_requests import FileRequests
from holdfast.runtime.files.stopped_files import _Unpacking
from holdfast.runtime.files.tar_streams import ACCOUNT
from holdfast.runtime.files.tar_trees import UnpackTree
from holdfast.runtime.history.recording import recording_source
from holdfast.runtime.lifecycle import load_image
from holdfast.snapshots.bundle import foreign_files
from holdfast.snapshots.bundle.oci_layout import FileOrigin
from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.layers import tmpfs

SECRET = b"of the host"
LONG = "n" * 5000
END = bytes(1024)


def entry(name: str, data: bytes = b"", form: Literal[0, 1, 2] = tarfile.GNU_FORMAT, **fields: Any) -> bytes:
    """Return a member as it lies in an archive; `size` is the claimed size, whatever the real one."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    member.mode = 0o6755
    for key, value in fields.items():
        setattr(member, key, value)
    head = member.tobuf(form, errors="surrogateescape")
    return head + data + bytes(-len(data) % 512)


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> bytes:
    return entry(name, type=kind, linkname=to)


def pax(name: str, data: bytes = b"x", **headers: str) -> bytes:
    return entry(
        name, data, tarfile.PAX_FORMAT, pax_headers={k.replace("__", "."): v for k, v in headers.items()}
    )


def damaged(at: int, text: bytes) -> bytes:
    """Return a member in whose header something else stands, with the right sum."""
    head = bytearray(entry("x", b"data")[:512])
    head[at : at + len(text)] = text
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + b"data" + bytes(508)


def archives(host: Path) -> dict[str, bytes]:
    """Return the archives an attacker sends; `host` is a folder that a reader must neither write to nor
    read."""
    out = str(host)
    return {
        "name above": entry("a/../../host/new", b"x"),
        "name above at once": entry("../host/new", b"x"),
        "absolute name": entry(f"{out}/new", b"x"),
        "name with NUL": pax("x", path="a\0b"),
        "name of nothing": pax("x", path=""),
        "name of the folder": entry(".", b"x"),
        "long name": entry(LONG, b"x"),
        "name of halves": entry("\udcff\udc80", b"x"),
        "names in other cases": entry("A", b"1") + entry("a", b"2"),
        "twice": entry("a", b"1") + entry("a", b"2"),
        "folder over a file": entry("a", b"1") + entry("a/b", b"2"),
        "file over a folder": entry("a", type=tarfile.DIRTYPE) + entry("a", b"2"),
        "deep": entry("/".join("d" * 2000), b"x"),
        "link out, and through it": link("a", out) + entry("a/new", b"x"),
        "link above, and through it": link("a", "../host") + entry("a/new", b"x"),
        "link to a file out, and over it": link("a", f"{out}/secret") + entry("a", b"x"),
        "links in steps": link("a", "..") + link("b", "a/host") + entry("b/new", b"x"),
        "link to itself": link("a", "a") + entry("a/b", b"x"),
        "folder that becomes a link": entry("a", type=tarfile.DIRTYPE)
        + link("a", out)
        + entry("a/new", b"x"),
        "hard link out": link("a", f"{out}/secret", tarfile.LNKTYPE) + entry("a", b"x"),
        "hard link above": link("t/a", "t/../host/secret", tarfile.LNKTYPE),
        "hard link through a link": link("t/s", out) + link("t/a", "t/s/secret", tarfile.LNKTYPE),
        "hard link to a link": link("t/s", f"{out}/secret") + link("t/a", "t/s", tarfile.LNKTYPE),
        "hard link to nothing": link("a", "gone", tarfile.LNKTYPE),
        "link to nothing": link("a", ""),
        "link with NUL": pax("x", b"", linkpath="a\0b") + link("a", "b"),
        "device": entry("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        "disk": entry("a", type=tarfile.BLKTYPE, devmajor=8, devminor=0),
        "pipe": entry("a", type=tarfile.FIFOTYPE) + entry("a", b"x"),
        "unknown kind": entry("a", b"x", type=b"Z"),
        "volume": entry("a", b"", type=b"V"),
        "several parts": entry("a", b"x", type=b"M"),
        "claims more than there is": entry("a", b"x", size=1 << 40),
        "claims less than nothing": entry("a", b"x", size=-1) + entry("b", b"y"),
        "claims far less than nothing": entry("a", b"x", size=-(1 << 40)) + entry("b", b"y"),
        "hole": pax("a", b"", GNU__sparse__map="0,0", GNU__sparse__size=str(1 << 50)),
        "hole of no size": pax("a", b"", GNU__sparse__map="0,0", GNU__sparse__size="-5"),
        "hole of words": pax("a", b"", GNU__sparse__map="a,b,c", GNU__sparse__size="x"),
        "holes in one another": pax("a", b"xx", GNU__sparse__map="5,1,0,9", GNU__sparse__size="9"),
        "holes of 1.0": pax("a", b"9\n" * 256, GNU__sparse__major="1", GNU__sparse__minor="0"),
        "other name by pax": pax("x", path="../host/new"),
        "other size by pax": pax("x", size="-1") + entry("b", b"y"),
        "size of words by pax": pax("x", size="1e9"),
        "great numbers": pax("x", uid=str(1 << 70), gid="-1", mtime="1" * 400),
        "time that is none": pax("x", mtime="nan"),
        "time without end": pax("x", mtime="inf"),
        "attributes of the system": pax("x", SCHILY__xattr__trusted__overlay__opaque="y"),
        "header for all": entry("g", b"30 path=../host/new\n", type=tarfile.XGLTYPE) + entry("a", b"x"),
        "header without end": entry("h", b"99999999 path=x\n", type=tarfile.XHDTYPE) + entry("a", b"x"),
        "header of no form": entry("h", b"\xff\0=\n", type=tarfile.XHDTYPE) + entry("a", b"x"),
        "headers in headers": entry("h", b"", type=tarfile.XHDTYPE) * 3000 + entry("a", b"x"),
        "long name that is none": entry("l", b"", type=tarfile.GNUTYPE_LONGNAME) + entry("a", b"x"),
        "size in other digits": damaged(124, b"9999999999\0"),
        "size of bits": damaged(124, b"\x80" + b"\xff" * 11),
        "mode of words": damaged(100, b"rwxrwxr"),
        "cut": entry("a", b"x" * 2000)[:1000],
        "nothing": b"",
        "zeros": bytes(10_240),
        "no archive": b"PK\x03\x04" + bytes(2000),
        "account of no form": entry("account", b"[" * 100_000, type=ACCOUNT),
        "account that lies": entry(
            "account", b'{"left_out": {"\\u001b[2J": "\\n"}, "changed": 7}', type=ACCOUNT
        ),
    }


NAMES = tuple(archives(Path("/nowhere")))


class Session(FileRequests):
    """A session in a folder: it makes what it is asked for, as root in it could, and notes the paths."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.asked: list[str] = []

    def _note(self, path: str) -> None:
        self.asked.append(path)
        assert path == self.to or path.startswith(f"{self.to}/") or self.to.startswith(f"{path}/")
        assert not {"..", "."} & set(path.split("/"))

    def make_folder(self, path: str, mode: int | None = None, *, parents: bool = False) -> None:
        self._note(path)

    def make_link(self, path: str, target: str, **_how: Any) -> None:
        self._note(path)

    def write(self, path: str, parts: Iterator[bytes], mode: int | None = None, **_how: Any) -> int:
        self._note(path)
        assert mode is None or mode & ~0o777 == 0
        return sum(map(len, parts))


def _unpacked_here(data: bytes, target: Path) -> None:
    """Unpack as the checkpointer does: after the same judgement, or without it."""
    file = target.parent / "memory.tar"
    file.write_bytes(data)
    with file.open("rb") as opened, ExitStack() as stack:
        root = os.open(target, beneath.ROOT)
        stack.callback(os.close, root)
        tmpfs.unpack(opened, root)


def _judged(check: Callable[[Path], None]) -> Callable[[bytes, Path], None]:
    def read(data: bytes, target: Path) -> None:
        file = target.parent / "judged.tar"
        file.write_bytes(data)
        check(file)

    return read


def _bundle(data: bytes, target: Path) -> None:
    file = target.parent / "bundle.tar"
    file.write_bytes(data)
    with FileOrigin(file) as source:
        source.index()


def _image(data: bytes, target: Path) -> None:
    place = load_image.StoredArchive(io.BytesIO(data))
    for name in ("a", "t/a", "b", "x", "../host/secret", "manifest.json"):
        file = place.open(name)
        assert file is None or SECRET not in file.read(1 << 16)
    load_image.find_image(place, "linux/amd64")


READERS: dict[str, Callable[[bytes, Path], object]] = {
    "a copy out of a session": lambda data, target: UnpackTree(
        io.BytesIO(data + entry("account", b'{"left_out": {}, "changed": []}', type=ACCOUNT) + END)
    ).tree(target),
    "one file out of a session": lambda data, target: UnpackTree(io.BytesIO(data + END)).file(target / "a"),
    "a copy out of one that has ended": lambda data, target: _Unpacking(io.BytesIO(data + END)).tree(target),
    "an upload into a session": lambda data, target: tar_streams.read(
        Session("/srv/to"), io.BytesIO(data + END), "/srv/to"
    ),
    "recordings": lambda data, target: recording_source._unpacked(
        [data + END], target, re.compile(r"[ -~]+"), 1 << 20
    ),
    "an image": lambda data, target: _image(data + END, target),
    "a bundle": lambda data, target: _bundle(data + END, target),
    "a layer of a bundle": lambda data, target: _judged(foreign_files.check_layer)(data + END, target),
    "shared memory of a bundle": lambda data, target: _judged(foreign_files.check_memory)(data + END, target),
    "shared memory, unpacked": lambda data, target: _unpacked_here(data + END, target),
}
ENDS = (HoldfastError, OSError, tarfile.TarError)
"""How a reader may end: its callers turn the last two into one line."""


def _tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, b"" if path.is_dir() else path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reader", READERS)
def test_nothing_is_made_elsewhere_and_one_error_ends_it(
    reader: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files, folders and links inside the folder are made, without rights for others."""
    monkeypatch.setattr(bounded_tar, "MOST_GROWTH", 1 << 20)
    host, target = tmp_path / "host", tmp_path / "target"
    host.mkdir()
    target.mkdir()
    (host / "secret").write_bytes(SECRET)
    before = _tree(host)
    refusal = ""
    try:
        READERS[reader](archives(host)[name], target)
    except ENDS as error:
        refusal = str(error) if isinstance(error, HoldfastError) else ""
    assert refusal.isprintable()
    assert _tree(host) == before
    assert (host / "secret").stat().st_nlink == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".tar") == ["host", "target"]
    if reader == "shared memory, unpacked":
        return  # in the session's own mounts, by a process without rights
    for path in target.rglob("*"):
        found = path.lstat()
        assert stat.S_IFMT(found.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        assert found.st_mode & 0o7000 == 0
        assert found.st_size < 1 << 21
        if path.is_symlink():
            assert Path(os.path.realpath(path)).is_relative_to(target) or not path.exists()


def _zipped(*names: str, **fields: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            member = zipfile.ZipInfo("x")
            member.filename = name
            for key, value in fields.items():
                setattr(member, key, value)
            archive.writestr(member, b"x")
    return buffer.getvalue()


def _altered(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new)


ZIPS: dict[str, bytes] = {
    "name above": _zipped("a/../../x"),
    "absolute name": _zipped("/etc/x"),
    "name of another system": _zipped("..\\..\\x", "C:\\x"),
    "long name": _zipped(LONG),
    "name with NUL": _altered(_zipped("aXb"), b"aXb", b"a\0b"),
    "name of nothing": _zipped(""),
    "name of bytes": _altered(_zipped("aXb"), b"aXb", b"\xff\xfe\x80"),
    "twice": _zipped("a", "a"),
    "folder over a file": _zipped("a", "a/b", "a/"),
    "link": _zipped("a", "a/b", external_attr=0o120777 << 16),
    "device": _zipped("a", external_attr=0o060777 << 16),
    "pipe": _zipped("a", external_attr=0o010777 << 16),
    "rights of another": _zipped("a", external_attr=0o106777 << 16),
    "members elsewhere": _altered(_zipped("a"), b"PK\x01\x02", b"PK\x01\x03"),
    "two names of one member": _altered(_zipped("aXb"), b"aXb", b"a/b").replace(b"a/b", b"../", 1),
    "cut": _zipped("a")[:-30],
    "nothing": b"",
}


@pytest.mark.parametrize("name", ZIPS)
def test_a_zip_archive_makes_nothing_elsewhere(name: str) -> None:
    """Nothing is asked of the session but below the folder, and without the rights of others."""
    session, refusal = Session("/srv/to"), ""
    try:
        zip_archives.read(session, io.BytesIO(ZIPS[name]), "/srv/to")
    except HoldfastError as error:
        refusal = str(error)
    assert refusal.isprintable()
    assert refusal or session.asked[0] == "/srv/to"


def test_a_layer_of_an_image_is_not_unpacked_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of kilobytes would fill the disk of the home."""
    monkeypatch.setattr(bounded_tar, "MOST_GROWTH", 1 << 20)
    packed = gzip.compress(bytes(64 << 20))
    with tarfile.open(tmp_path / "image.tar", "w") as made:
        member = tarfile.TarInfo("l")
        member.size = len(packed)
        made.addfile(member, io.BytesIO(packed))
    scratch = tmp_path / "scratch"
    with (tmp_path / "image.tar").open("rb") as file:
        place = load_image.StoredArchive(file)
        with pytest.raises(tarfile.ReadError, match="when unpacked"):
            load_image._unpack(place, "l", "sha256:", scratch)
    assert scratch.stat().st_size < 4 << 20
