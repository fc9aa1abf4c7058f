"""The file of an archive at an offset, however the archive is cut, and whatever wrote it."""

from __future__ import annotations

import io
import random
import tarfile

import pytest

from holdfast.runtime.scrubbing.members import Members

NAMES = [
    "etc/a",
    "./root/b",
    "deep/" * 30 + "c",
    "long" * 60,
    "prefix/" * 20 + "name" * 20,
    "Grüße/日本",
    "d/" * 400 + "e",
]


def _archive(form: int) -> tuple[bytes, dict[str, int]]:
    """Return an archive, and the offset of each file's content."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=form) as archive:
        for number, name in enumerate(NAMES):
            folder = tarfile.TarInfo(f"folder{number}")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            link = tarfile.TarInfo(f"link{number}")
            link.type, link.linkname = tarfile.SYMTYPE, "x" * 300
            archive.addfile(link)
            member = tarfile.TarInfo(name)
            member.size = 513 * number + 1
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    data = written.getvalue()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return data, {m.name: m.offset_data for m in archive if m.isreg()}


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("seed", range(5))
def test_names_equal_tarfiles(form: int, seed: int) -> None:
    """Of all formats that engines write."""
    data, places = _archive(form)
    met: list[str] = []
    members, draw, at = Members(met.append), random.Random(seed), 0
    while at < len(data):
        size = draw.choice([1, 100, 512, 700, 5000])
        members.feed(data[at : at + size])
        at += size

    paths = {name: "/" + name.removeprefix("./") for name in NAMES}
    assert met == [paths[name] for name in NAMES]
    for name, start in places.items():
        assert members.name_at(start) == paths["./" + name if "./" + name in paths else name]


def test_invalid_archives_have_no_names_and_do_no_harm() -> None:
    """Hostile bytes: any length, any size they claim."""
    for seed in range(200):
        draw = random.Random(seed)
        members = Members()
        for _ in range(20):
            head = bytearray(draw.randbytes(512))
            head[156:157] = draw.choice([b"L", b"x", b"0", b"g", b"K", b"5", b"S"])
            head[124:136] = draw.choice(
                [b"00000000777\0", b"\xff" * 12, b"           \0", b"9" * 12, b"0" * 12]
            )
            members.feed(bytes(head) + draw.randbytes(draw.randrange(2000)))
        members.name_at(draw.randrange(10**6))


def test_many_small_files_take_bounded_memory() -> None:
    """Names far back are forgotten; those near are known."""
    head = bytearray(tarfile.TarInfo("file").tobuf(tarfile.GNU_FORMAT))
    members = Members()
    for _ in range(100):
        members.feed(bytes(head) * 1000)

    assert len(members._names) <= 41_000
    assert members.name_at(99_000 * 512) == "/file"
