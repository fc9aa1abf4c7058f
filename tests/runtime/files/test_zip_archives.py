"""Hostile archives are refused before anything of them is written."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.files import zip_archives


class Untouched:
    """Takes the place of a session that must not be asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the session was asked to {name}")


def packed(*members: zipfile.ZipInfo | str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for each in members:
            archive.writestr(each, b"content")
    return stream.getvalue()


def special(kind: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo("special")
    member.external_attr = (kind | 0o777) << 16
    return member


def encrypted() -> bytes:
    data = bytearray(packed("a"))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    return bytes(data)


def larger_than_said(size: int) -> bytes:
    """Return an archive whose list of members gives a wrong size."""
    data = bytearray(packed("a", method=zipfile.ZIP_STORED))
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, size)
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        packed("a")[:-5],
        packed("../a"),
        packed("fine", "a/../../b"),
        packed("/etc/passwd"),
        packed(special(stat.S_IFLNK)),
        packed(special(stat.S_IFIFO)),
        packed(special(stat.S_IFBLK)),
        packed("a", method=zipfile.ZIP_LZMA),
        packed("a", method=zipfile.ZIP_BZIP2),
        encrypted(),
    ],
)
def test_an_archive_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="cannot unpack the archive"):
        zip_archives.read(Untouched(), io.BytesIO(data), "/tmp/to")  # type: ignore[arg-type]


def test_a_bomb_is_refused_by_its_declared_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_archives, "MOST_BYTES", 1000)
    with pytest.raises(InvalidArgument, match="more than"):
        zip_archives.read(Untouched(), io.BytesIO(larger_than_said(1001)), "/tmp/to")  # type: ignore[arg-type]


def test_a_long_list_of_members_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_archives, "MOST_DIRECTORY", 64 << 10)
    data = packed(*(f"member-{number:04}" for number in range(4000)))
    with pytest.raises(InvalidArgument, match="list of members"):
        zip_archives.read(Untouched(), io.BytesIO(data), "/tmp/to")  # type: ignore[arg-type]


def test_names_stay_in_the_folder() -> None:
    names = {"a/b": "a/b", "./a//b/": "a/b", "": "", "./": "", "a\\..\\b": "a\\..\\b", "..a/..b": "..a/..b"}
    for name, expected in names.items():
        assert zip_archives.place(zipfile.ZipInfo(name or "./")) == expected
