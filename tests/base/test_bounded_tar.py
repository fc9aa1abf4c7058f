"""The claims of an archive take no memory: headers, holes, members, compression."""

from __future__ import annotations

import ast
import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, cast

import pytest
import zstandard

from holdfast.base import bounded_tar
from holdfast.base.bounded_tar import BoundedTar, GrowsTooMuch, PlainStream

ROOT = Path(__file__).parents[2]
PRODUCT = ("src/holdfast", "runtime", "snapshots", "images", "kernels", "setup")
OF_OTHERS = {
    "snapshots/layer/oci.py": "the engine's own words",
    "snapshots/bundle/image_layers.py": "the engine's own words",
    "snapshots/bundle/squashed_layers.py": "the engine's own words",
    "src/holdfast/engine/container_files.py": "the engine's own words",
    "runtime/lifecycle/fitting.py": "the engine's own words, of an image of ours",
    "snapshots/checkpointer/layers/tmpfs.py": "judged by the host before, with the one reader",
}
"""Who reads archives in another way, and from whom they are."""
CLAIMED = 48 << 20
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


class Endless(io.RawIOBase):
    """Some bytes, and then zeros as long as anyone reads; counts what was read."""

    def __init__(self, start: bytes) -> None:
        super().__init__()
        self._start = start
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        data, self._start = self._start[:size], self._start[size:]
        data += bytes(size - len(data))
        self.count += size
        return data


def header(**fields: Any) -> bytes:
    member = tarfile.TarInfo("x")
    for key, value in fields.items():
        setattr(member, key, value)
    return member.tobuf(tarfile.GNU_FORMAT)


def archive(*files: tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as made:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def read(file: IO[bytes], **how: Any) -> list[tuple[str, bytes]]:
    tar, found = BoundedTar(file, **how), []
    for member in tar:
        content = tar.content(member)
        found.append((member.name, content.read() if content else b""))
    return found


def stream(data: bytes, most: int = 1000) -> IO[bytes]:
    """As a connection delivers it: forward only, in pieces."""

    class Forward(io.RawIOBase):
        def __init__(self) -> None:
            self._file = io.BytesIO(data)

        def read(self, size: int = -1) -> bytes:
            return self._file.read(min(size, most) if size >= 0 else most)

    return cast("IO[bytes]", Forward())


def claims(kinds: Iterable[bytes]) -> list[bytes]:
    return [header(type=kind, size=CLAIMED) for kind in kinds]


@pytest.mark.parametrize("seeks", [False, True])
def test_an_archive_is_read_whole(seeks: bool) -> None:
    """In both formats, with and without reading the members' content."""
    files = [("a", b"1" * 511), ("b" * 300, b""), ("c", b"2" * 512), ("ü/d", b"3" * 70_000), ("e", b"4")]
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        data = archive(*files, form=form)
        assert read(io.BytesIO(data) if seeks else stream(data), seeks=seeks) == files
        skipped = [member.name for member in BoundedTar(stream(data))]
        assert skipped == [name for name, _ in files]


@pytest.mark.parametrize(
    "claim",
    claims([tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE]),
    ids=["name", "target", "pax", "global pax"],
)
def test_a_header_is_not_read_as_far_as_it_claims(claim: bytes) -> None:
    """Python's own reader takes all of it into memory."""
    source = Endless(claim)
    with pytest.raises(tarfile.TarError, match="header is too long"):
        read(cast("IO[bytes]", source))
    assert source.count < 1 << 20
    # The attack on a reader without a bound: it reads all of it.
    source = Endless(claim)
    with (
        pytest.raises(tarfile.TarError),
        tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|") as opened,
    ):
        for _ in opened:
            pass
    assert source.count >= CLAIMED


def test_headers_before_headers_end() -> None:
    """A chain of them is refused."""
    chain = header(type=tarfile.GNUTYPE_LONGNAME, size=1) + b"n".ljust(512, b"\0")
    with pytest.raises(tarfile.TarError):
        read(io.BytesIO(chain * 20_000))


def test_values_for_all_members_are_bounded() -> None:
    """Global headers cannot add names without end."""
    parts = []
    for number in range(bounded_tar.MOST_SHARED + 50):
        record = f"13 key{number:04}=v\n".encode()
        assert len(record) == 13
        parts += [header(type=tarfile.XGLTYPE, size=len(record)), record.ljust(512, b"\0"), header(size=0)]
    with pytest.raises(tarfile.TarError, match="too many values"):
        read(io.BytesIO(b"".join(parts)))


def test_members_are_not_remembered_unless_they_are_asked_for() -> None:
    """The memory of a long archive stays flat."""
    tar = BoundedTar(stream(archive(*((f"f{number}", b"x") for number in range(2000)))))
    kept = [len(cast("Any", tar)._tar.members) for _ in tar]
    assert (len(kept), max(kept)) == (2000, 0)


def test_members_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among a bounded number of them."""
    data = archive(("a", b"1"), ("b", b"2"))
    tar = BoundedTar(io.BytesIO(data), remembers=True)
    tar.remember()
    found = tar.named("b")
    assert found is not None
    assert found.read() == b"2"
    with pytest.raises(KeyError):
        tar.named("c")
    monkeypatch.setattr(bounded_tar, "MOST_REMEMBERED", 1)
    with pytest.raises(tarfile.TarError, match="too many members"):
        BoundedTar(io.BytesIO(data), remembers=True).remember()


def test_a_link_to_itself_is_not_content() -> None:
    """It is refused, not followed."""
    loop = BoundedTar(io.BytesIO(header(type=tarfile.SYMTYPE, linkname="x") + bytes(1024)), remembers=True)
    loop.remember()
    with pytest.raises(tarfile.TarError, match="link to itself"):
        loop.named("x")


@pytest.mark.parametrize("form", [*PACKERS, "plain"])
def test_compressed_streams_are_unpacked(form: str) -> None:
    """By their first bytes; one that ends early is refused."""
    files = [("a", b"1" * 100_000), ("b", b"2")]
    data = PACKERS.get(form, bytes)(archive(*files))
    opened = PlainStream(stream(data, 1 << 16))
    assert opened.packed == (form != "plain")
    assert read(cast("IO[bytes]", opened)) == files
    if form != "plain":
        with pytest.raises(tarfile.TarError):
            read(cast("IO[bytes]", PlainStream(stream(data[: len(data) // 2], 1 << 16))))


@pytest.mark.parametrize("form", PACKERS)
def test_a_bomb_is_refused(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its growth; as many zeros that were sent are not a bomb."""
    monkeypatch.setattr(bounded_tar, "MOST_GROWTH", 1 << 20)
    bomb = PACKERS[form](archive(("zeros", bytes(8 << 20))))
    assert len(bomb) < 100_000
    with pytest.raises(GrowsTooMuch):
        read(cast("IO[bytes]", PlainStream(stream(bomb, 1 << 16))))
    sent = archive(("zeros", bytes(8 << 20)))
    assert len(read(cast("IO[bytes]", PlainStream(stream(sent, 1 << 16))))[0][1]) == 8 << 20


def test_xz_streams_one_after_the_other_are_one() -> None:
    """With padding between them, as the format allows."""
    both = lzma.compress(b"one ") + bytes(8) + lzma.compress(b"two")
    assert PlainStream(stream(both)).read(4) == b"one "
    opened = bounded_tar.opened(io.BytesIO(both), both[:6])
    assert opened.read() == b"one two"


def test_a_decompressor_gets_no_memory_on_a_claim() -> None:
    """The dictionary of this stream of a few bytes has 1.5 GiB."""
    data = bytearray(lzma.compress(b"x"))
    assert data[14] == 0x21  # LZMA2, whose property is the size of its dictionary
    data[16] = 37
    length = (data[12] + 1) * 4
    data[12 + length - 4 : 12 + length] = zlib.crc32(data[12 : 12 + length - 4]).to_bytes(4, "little")
    assert lzma.decompress(data) == b"x"  # it is valid where nothing bounds it
    with pytest.raises(tarfile.TarError, match=r"(?i)memory"):
        PlainStream(stream(bytes(data))).read(1)


def test_no_other_reader_of_archives_is_there() -> None:
    """Except for the named ones, each with its reason."""
    found = set()
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if path.is_symlink() or any(part.is_symlink() for part in path.parents) or "__pycache__" in name:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and ast.unparse(node.func) in ("tarfile.open", "tarfile.TarFile", "shutil.unpack_archive")
                    and not any(
                        key.arg == "mode" and str(ast.literal_eval(key.value)).startswith("w")
                        for key in node.keywords
                    )
                ):
                    found.add(name)
    assert found - {"src/holdfast/base/bounded_tar.py"} == set(OF_OTHERS)
