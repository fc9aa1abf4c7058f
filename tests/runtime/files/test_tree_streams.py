"""Trees as tar streams between this machine and a server: exact, and with the stream as the enemy."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import pytest
from tests.base.test_bounded_tar import Endless

from holdfast.base import bounded_tar, own_folders
from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.client.http_call import PartStream, parted
from holdfast.runtime.files import tar_streams
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.copy_files import CopyIn
from holdfast.runtime.files.file_requests import FileRequests
from holdfast.runtime.files.local_folder import DEEPEST
from holdfast.runtime.files.tar_streams import ACCOUNT
from holdfast.runtime.files.tar_trees import PackTree, UnpackTree

TIMES = (0, 1, 1_700_000_000_123_456_789, -1, -1_500_000_000, 2**62, -(2**62), 5 * 10**9)


def sent(*members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes], account: object = None) -> io.BytesIO:
    """Return a stream as a server sends it."""
    stream = io.BytesIO()
    last = tarfile.TarInfo("account")
    last.type = ACCOUNT
    told = json.dumps({"left_out": {}, "changed": []} if account is None else account).encode()
    last.size = len(told)
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for each in (*members, (last, told)):
            member, data = each if isinstance(each, tuple) else (each, b"")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    stream.seek(0)
    return stream


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, mode
    return made


def accounted(packed: bytes, account: object = None) -> io.BytesIO:
    """Return a stream that was packed here as if a server had sent it."""
    end = sent(account=account).getvalue()
    return io.BytesIO(packed[:-1024] + end)


@pytest.mark.parametrize("mtime_ns", TIMES)
def test_times_are_exact(mtime_ns: int) -> None:
    """To the nanosecond."""
    made = member("a")
    tar_streams.stamp(made, mtime_ns)
    data = made.tobuf(tarfile.PAX_FORMAT)
    with tarfile.open(fileobj=io.BytesIO(data + bytes(1024)), mode="r|") as tar:
        (found,) = tar
    assert tar_streams.modified_ns(found) == mtime_ns


@pytest.mark.parametrize("text", ["nan", "-inf", "inf", "x", "", "1e400", "9" * 60, "1e-9999999", "sNaN"])
def test_invalid_times_are_none(text: str) -> None:
    """Anyone can send a stream to be unpacked in a session."""
    made = member("a")
    made.pax_headers = {"mtime": text}
    with tarfile.open(fileobj=io.BytesIO(made.tobuf(tarfile.PAX_FORMAT) + bytes(1024)), mode="r|") as tar:
        (found,) = tar
    assert tar_streams.modified_ns(found) == 0


def test_a_tree_comes_back(tmp_path: Path) -> None:
    """With names that are not text, modes, times, links within it, and holes; the rest is reported as left
    out.
    """
    source, odd = tmp_path / "source", os.fsdecode(b"odd\xff")
    (source / "deep" / ("n" * 200)).mkdir(parents=True)
    (source / "deep" / ("n" * 200) / odd).write_bytes(bytes(9_000_000) + b"end")
    (source / "empty").write_bytes(b"")
    (source / "tool").write_bytes(b"x" * 512)
    (source / "tool").chmod(0o4750)
    (source / "link").symlink_to("deep/../tool")
    (source / "in").symlink_to("tool")
    (source / "closed").mkdir()
    (source / "closed" / "inner").write_text("kept")
    (source / "closed").chmod(0o555)
    os.mkfifo(source / "pipe")
    os.utime(source / "empty", ns=(5, 1_600_000_000_987_654_321))
    pack = PackTree()
    packed = b"".join(pack.tree(source))
    assert set(pack.made.left_out) == {str(source / "pipe")}
    assert (pack.made.files, pack.made.folders, pack.made.links) == (4, 3, 2)

    made = UnpackTree(_without_root(packed)).tree(tmp_path / "copy")

    copy = tmp_path / "copy"
    assert (made.files, made.folders, made.links, made.bytes) == (4, 3, 1, 9_000_003 + 512 + 4)
    assert set(made.left_out) == {"link"}
    assert (copy / "deep" / ("n" * 200) / odd).read_bytes() == bytes(9_000_000) + b"end"
    assert (copy / "deep" / ("n" * 200) / odd).stat().st_blocks < 10_000
    assert (copy / "tool").stat().st_mode & 0o7777 == 0o750
    assert (copy / "closed").stat().st_mode & 0o777 == 0o555
    assert (copy / "closed" / "inner").read_text() == "kept"
    assert (copy / "empty").stat().st_mtime_ns == 1_600_000_000_987_654_321
    assert (copy / "in").readlink() == Path("tool")


def _without_root(packed: bytes) -> io.BytesIO:
    """Return the stream with an account, and without the folder itself, which a server does not send."""
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r|") as tar:
        first, second = tar.next(), tar.next()
        assert first
        assert second
        assert first.name == "."
        begin = second.offset
    return accounted(packed[begin:])


def test_one_file(tmp_path: Path) -> None:
    """A stream with anything else than one regular file is refused."""
    (tmp_path / "a").write_text("one")
    packed = b"".join(PackTree().file(tmp_path / "a", "named"))
    made = UnpackTree(accounted(packed)).file(tmp_path / "b")
    assert ((tmp_path / "b").read_text(), made.files, made.bytes) == ("one", 1, 3)
    for other in (sent(), sent(member("a", tarfile.DIRTYPE)), sent((member("a"), b"1"), (member("b"), b"2"))):
        with pytest.raises(ProtocolError):
            UnpackTree(other).file(tmp_path / "c")
    with pytest.raises(OSError, match="not a regular file"):
        list(PackTree().file(Path("/dev/null"), "null"))


def test_a_file_that_shrinks_or_grows_while_it_is_packed(tmp_path: Path) -> None:
    """It has the size of the beginning, and is reported as changed."""
    file = tmp_path / "a"
    for size in (10, 5_000_000):
        file.write_bytes(b"x" * 3_000_000)
        pack = PackTree()
        parts = pack.file(file, "a")
        packed = next(parts)
        os.truncate(file, size)
        packed += b"".join(parts)
        assert pack.made.changed == [str(file)]
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r|") as tar:
            (found,) = tar
        assert found.size == 3_000_000


HOSTILE: dict[str, Callable[[], io.BytesIO]] = {
    "above": lambda: sent((member("../out"), b"x")),
    "above, inside": lambda: sent(member("d", tarfile.DIRTYPE), (member("d/../../out"), b"x")),
    "absolute": lambda: sent((member("/tmp/out"), b"x")),
    "nameless": lambda: sent((member("a//b"), b"x")),
    "here": lambda: sent(member(".", tarfile.DIRTYPE)),
    "device": lambda: sent(member("null", tarfile.CHRTYPE)),
    "pipe": lambda: sent(member("pipe", tarfile.FIFOTYPE)),
    "hard link": lambda: sent(member("a", tarfile.LNKTYPE, "/etc/passwd")),
    "no account": lambda: io.BytesIO(bytes(1024)),
    "cut": lambda: io.BytesIO(sent((member("a"), b"x" * 5000)).getvalue()[:3000]),
    "no tar": lambda: io.BytesIO(b"<html>" * 500),
    "nothing": lambda: io.BytesIO(b""),
    "account": lambda: sent(account=[1]),
    "account of texts": lambda: sent(account={"left_out": "x", "changed": []}),
    "account of numbers": lambda: sent(account={"left_out": {}, "changed": 5}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_other_streams_are_refused(tmp_path: Path, name: str) -> None:
    """Nothing is written outside of the folder, and no file in it."""
    (tmp_path / "copy").mkdir()
    with pytest.raises(ProtocolError):
        UnpackTree(HOSTILE[name]()).tree(tmp_path / "copy")
    assert {path.name for path in tmp_path.iterdir()} == {"copy"}
    assert not [path for path in (tmp_path / "copy").rglob("*") if not path.is_dir()]


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    """Neither links in the stream, nor links that exist here."""
    outside, copy = tmp_path / "outside", tmp_path / "copy"
    outside.mkdir()
    (outside / "a").write_text("host")
    copy.mkdir()
    (copy / "dir").symlink_to(outside)
    (copy / "a").symlink_to(outside / "a")
    with pytest.raises(OSError, match=r"directory|symbolic"):
        UnpackTree(sent(member("dir", tarfile.DIRTYPE), (member("dir/a"), b"bad"))).tree(copy)
    with pytest.raises(OSError, match=r"directory|symbolic"):
        UnpackTree(sent(member("in", tarfile.SYMTYPE, "x"), (member("in/a"), b"bad"))).tree(copy)
    made = UnpackTree(sent(member("out", tarfile.SYMTYPE, "/etc"), (member("a"), b"new"))).tree(copy)
    assert set(made.left_out) == {"out"}
    assert (outside / "a").read_text() == "host"
    assert ((copy / "a").read_text(), (copy / "a").is_symlink()) == ("new", False)


def test_folders_without_end_are_refused(tmp_path: Path) -> None:
    """The message has the limit."""
    names = ["/".join(["d"] * (depth + 1)) for depth in range(DEEPEST + 1)]
    with pytest.raises(InvalidArgument, match=f"more than {DEEPEST} deep"):
        UnpackTree(sent(*(member(name, tarfile.DIRTYPE) for name in names))).tree(tmp_path / "copy")


def test_the_account_is_taken_over(tmp_path: Path) -> None:
    """Files that the sender left out, or found changed, are in the result; progress is counted in bytes."""
    seen: list[int] = []

    def report(made: Copied) -> None:
        seen.append(made.bytes)

    told = {"left_out": {"/s/fifo": "neither"}, "changed": ["/s/a"]}
    made = UnpackTree(sent((member("a"), b"abc"), account=told), report).tree(tmp_path / "copy")
    assert (made.left_out, made.changed, seen) == ({"/s/fifo": "neither"}, ["/s/a"], [3])


def test_headers_of_a_server_fill_no_memory(tmp_path: Path) -> None:
    """A name that claims to have 400 MiB is not read."""
    claim = member("x", tarfile.GNUTYPE_LONGNAME)
    claim.size = 400 << 20
    source = Endless(claim.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(ProtocolError, match="not valid"):
        UnpackTree(cast("IO[bytes]", source)).tree(tmp_path / "copy")
    assert source.count < 1 << 20


def test_holes_of_a_server_are_refused(tmp_path: Path) -> None:
    """Ours sends none, and a few bytes could be terabytes."""
    hole = member("x", tarfile.GNUTYPE_SPARSE)
    head = bytearray(hole.tobuf(tarfile.GNU_FORMAT))
    head[483:495] = b"77777777777\0"
    head[148:156] = b" " * 8
    head[148:156] = f"{sum(head):06o}\0 ".encode()
    (found,) = tarfile.open(fileobj=io.BytesIO(bytes(head) + bytes(1024)))  # noqa: SIM115
    assert found.issparse()
    assert found.size == 0o77777777777
    with pytest.raises(ProtocolError, match="other than files"):
        UnpackTree(io.BytesIO(bytes(head) + sent().getvalue())).tree(tmp_path / "copy")


class Session(FileRequests):
    """A session that takes what is written to it, and counts."""

    def __init__(self) -> None:
        self.bytes = 0

    def make_folder(self, path: str, mode: int | None = None, *, parents: bool = False) -> None:
        pass

    def write(self, path: str, parts: Iterator[bytes], **_how: Any) -> int:
        for part in parts:
            self.bytes += len(part)
        return self.bytes


@pytest.mark.parametrize("form", ["gzip", "hole"])
def test_decompression_bombs_are_refused(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed zeros, and holes in a file, before they are written."""
    monkeypatch.setattr(bounded_tar, "MOST_GROWTH", 4 << 20)
    if form == "gzip":
        data = gzip.compress(sent((member("zeros"), bytes(64 << 20))).getvalue())
    else:
        hole = member("zeros")
        hole.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}
        data = hole.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    assert len(data) < 1 << 20
    session = Session()
    with pytest.raises(InvalidArgument, match="when unpacked"):
        tar_streams.read(session, io.BytesIO(data), "/srv")
    assert session.bytes < 32 << 20


def test_folders_that_holdfast_wrote_stay_behind(tmp_path: Path) -> None:
    """On both ways into a session; one that is named is copied."""
    own_folders.make(tmp_path / "project" / "sub" / "captured")
    (tmp_path / "project" / "sub" / "captured" / "failure.holdfast").write_text("memory")
    (tmp_path / "project" / "file").write_text("input")
    packing = PackTree()
    with tarfile.open(fileobj=io.BytesIO(b"".join(packing.tree(tmp_path / "project")))) as found:
        assert found.getnames() == [".", "file", "sub"]
    left = {str(tmp_path / "project" / "sub" / "captured"): "Holdfast wrote it"}
    assert packing.made.left_out == left
    session = Session()
    assert CopyIn(session).tree(tmp_path / "project", "/srv").left_out == left
    assert session.bytes == len("input")
    with tarfile.open(
        fileobj=io.BytesIO(b"".join(PackTree().tree(tmp_path / "project" / "sub" / "captured")))
    ) as found:
        assert "failure.holdfast" in found.getnames()


def test_a_stream_of_parts() -> None:
    """Reads are independent of the parts, empty ones included."""
    parts = iter([b"", b"ab", b"", b"c" * 100_000, b"d", b""])
    stream = io.BufferedReader(PartStream(lambda: next(parts, None)), 1 << 10)
    assert stream.read(1) + stream.read() == b"ab" + b"c" * 100_000 + b"d"


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("/a/b", False, ("/a", "b")),
        ("/b", False, ("/", "b")),
        ("b", False, (".", "b")),
        ("~/b", False, ("~", "b")),
        ("/a/b/", True, ("/a", "b")),
        (".", True, (".", ".")),
    ],
)
def test_the_folder_above(path: str, folder: bool, expected: tuple[str, str]) -> None:
    """A path is divided into its folder and its name, relative ones too."""
    assert parted(path, folder=folder) == expected


@pytest.mark.parametrize("path", ["a/", ".", "..", "/", "~", "a/.."])
def test_a_file_needs_a_name(path: str) -> None:
    """A path that ends in a folder is refused."""
    with pytest.raises(InvalidArgument, match="that is a folder"):
        parted(path, folder=False)
