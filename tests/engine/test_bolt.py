"""Databases in the format of bbolt, written by hand; the tests of machines read those of a real
containerd."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from holdfast.engine import bolt

SIZE = 4096
BRANCH, LEAF, META = 1, 2, 4
Item = tuple[int, bytes, bytes]


def page(number: int, flags: int, items: list[Item], overflow: int = 0) -> bytes:
    """A page of keys and values; in a branch, each value is the number of a page."""
    heads, data, width = b"", b"", 16
    for place, (kind, key, value) in enumerate(items):
        at = (len(items) - place) * width + len(data)
        if flags == BRANCH:
            heads += struct.pack("<IIQ", at, len(key), int.from_bytes(value, "little"))
            value = b""
        else:
            heads += struct.pack("<IIII", kind, at, len(key), len(value))
        data += key + value
    made = struct.pack("<QHHI", number, flags, len(items), overflow) + heads + data
    return made.ljust(SIZE * (overflow + 1), b"\0")


def meta(number: int, root: int, transaction: int) -> bytes:
    body = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, SIZE, 0, root, 0, 2, 99, transaction)
    checksum = 0xCBF29CE484222325
    for byte in body:
        checksum = (checksum ^ byte) * 0x100000001B3 % (1 << 64)
    return (struct.pack("<QHHI", number, META, 0, 0) + body + struct.pack("<Q", checksum)).ljust(SIZE, b"\0")


def inline(items: list[Item]) -> bytes:
    """A bucket too small for a page of its own."""
    return struct.pack("<QQ", 0, 0) + page(0, LEAF, items).rstrip(b"\0") + b"\0"


def there(root: int) -> bytes:
    return struct.pack("<QQ", root, 0)


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


LONG = b"x" * (2 * SIZE)
PAGES = [
    meta(0, 3, 6),
    meta(1, 2, 5),  # of the transaction before: it had nothing
    page(2, LEAF, []),
    page(3, LEAF, [(1, b"v1", there(4))]),
    page(4, BRANCH, [(0, b"parents", number(5)), (0, b"snapshots", number(6))]),
    page(5, LEAF, [(1, b"parents", inline([(0, b"a", b"1")]))]),
    page(6, LEAF, [(1, b"snapshots", there(7)), (0, b"text", b"lacks the bucket")]),
    page(7, LEAF, [(1, b"one", inline([(0, b"id", b"\x05")])), (1, b"two", there(8))]),
    page(8, LEAF, [(0, b"id", b"\x06"), (0, b"long", LONG)], overflow=2),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "metadata.db"
    made.write_bytes(b"".join(PAGES))
    return made


def test_buckets_are_read_wherever_they_are(file: Path) -> None:
    """In pages of branches and leaves, within other pages, and over several."""
    assert bolt.read(file, b"v1", b"snapshots") == {
        b"one": {b"id": b"\x05"},
        b"two": {b"id": b"\x06", b"long": LONG},
    }
    assert bolt.read(file, b"v1", b"parents") == {}


def test_the_last_whole_transaction_counts(file: Path) -> None:
    """One that is half written is as if it had not begun."""
    data = bytearray(file.read_bytes())
    data[60] ^= 1
    file.write_bytes(data)
    with pytest.raises(bolt.BoltUnreadable, match="lacks the bucket v1"):
        bolt.read(file, b"v1")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SQLite format 3\0" * 1000,
        b"".join(PAGES[:4]),  # ends too early
        b"".join([*PAGES[:4], page(4, BRANCH, [(0, b"snapshots", number(4))])]),  # leads to itself
        b"".join([*PAGES[:4], page(9, LEAF, [])]),  # another page there
    ],
)
def test_other_files_are_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(bolt.BoltUnreadable):
        bolt.read(file, b"v1", b"snapshots")


def test_links_are_not_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(OSError, match="link"):
        bolt.read(tmp_path / "link", b"v1", b"snapshots")
