"""Tests of the notes of open files, and of finding and renewing them in memory: this process's."""

from __future__ import annotations

import ctypes
import json
import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.snapshots.checkpointer.carried import remembered
from holdfast.snapshots.checkpointer.carried.remembered import NumberPlaces, Numbers
from holdfast.snapshots.checkpointer.record import ImagesUnreadable, page_chain
from holdfast.snapshots.checkpointer.record.memory import ImageMemory
from holdfast.snapshots.checkpointer.record.page_chain import IN_PARENT, PAGE, PRESENT

PAIR = struct.pack("=QQ", 191, 7922051)
MODE, LINKS = 0o100644, 2
FILE = Numbers(7, 5, 191, 7922051, MODE, LINKS)
STAT = PAIR + struct.pack("=QI", LINKS, MODE)
PAGES = [  # address, pages, flags
    (0x10000, 1, PRESENT),
    (0x30000, 1, IN_PARENT),
    (0x50000, 2, PRESENT),
]


class Captured:
    """The images of process 7, with this memory."""

    def __init__(self, folder: Path, memory: bytes) -> None:
        self._pages = folder / "pages-3.img"
        self._pages.write_bytes(memory)

    def all_memory(self, pid: int) -> ImageMemory | None:
        maps = [
            SimpleNamespace(vaddr=at, nr_pages=0, compat_nr_pages=count, flags=flags)
            for at, count, flags in PAGES
        ]
        return ImageMemory([(self._pages, [*page_chain.located(maps, [(0, 1 << 64)])])]) if pid == 7 else None


def searched(folder: Path, memory: bytes, *files: Numbers) -> list[NumberPlaces]:
    return remembered.places(Captured(folder, memory.ljust(3 * PAGE, b"\0")), files or (FILE,))


def test_places_are_found_where_memory_has_both_numbers(tmp_path: Path) -> None:
    """Aligned as the compiler puts them; not across parts that are not neighbours, nor the inode alone."""
    memory = bytearray(3 * PAGE)
    for at in (16, 1003, PAGE - 8, PAGE - 24, PAGE + 128):
        memory[at : at + len(STAT)] = STAT
    memory[200 : 200 + len(STAT) - 8] = STAT[8:]
    assert searched(tmp_path, bytes(memory)) == [NumberPlaces(7, 5, PAIR, (0x10010, 0x50080))]


@pytest.mark.parametrize(
    ("after", "is_one"),
    [
        (struct.pack("=QI", LINKS, MODE), True),
        (struct.pack("=I", MODE), True),
        (struct.pack("=Q", 0x10000), True),
        (struct.pack("=Q", 0x50000 + 2 * PAGE - 1), True),
        (struct.pack("=Q", 0x50000 + 2 * PAGE), False),
        (struct.pack("=Q", 0x30000), False),
        (struct.pack("=QI", LINKS + 1, MODE), True),
        (struct.pack("=QI", 0, MODE), False),
        (struct.pack("=QI", 1 << 32, MODE), False),
        (struct.pack("=QI", LINKS, MODE + 1), False),
        (struct.pack("=QQ", 192, 7922052), False),
        (bytes(16), False),
    ],
)
def test_two_numbers_alone_can_be_anything(tmp_path: Path, after: bytes, *, is_one: bool) -> None:
    """They must be followed by the fields that programs keep behind them."""
    assert bool(searched(tmp_path, PAIR + after)) is is_one


def test_places_of_several_files_are_reported_separately(tmp_path: Path) -> None:
    """And a process that is not in the images has none."""
    other = struct.pack("=QQ", 191, 12)
    memory = STAT.ljust(32, b"\0") + other + struct.pack("=I", 0o100600)
    files = (FILE, Numbers(7, 6, 191, 12, 0o100600, 1), Numbers(8, 5, 191, 7922051, MODE, LINKS))
    assert searched(tmp_path, memory, *files) == [
        NumberPlaces(7, 5, PAIR, (0x10000,)),
        NumberPlaces(7, 6, other, (0x10020,)),
    ]


def test_a_process_that_has_it_everywhere_is_written_to_in_some_places_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work for it has a bound."""
    monkeypatch.setattr(remembered, "MOST", 5)
    (found,) = searched(tmp_path, STAT.ljust(32, b"\0") * 100)
    assert len(found.addresses) == 5


def test_a_process_that_nearly_has_it_everywhere_is_looked_at_in_some_places_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device alone costs a look: memory full of it would keep a restore busy for hours."""
    memory = struct.pack("=QQ", 191, 1) * 10 + STAT
    assert searched(tmp_path, memory) == [NumberPlaces(7, 5, PAIR, (0x100A0,))]
    monkeypatch.setattr(remembered, "MOST_LOOKS", 11)
    assert searched(tmp_path, memory) == [NumberPlaces(7, 5, PAIR, (0x100A0,))]
    monkeypatch.setattr(remembered, "MOST_LOOKS", 10)
    assert searched(tmp_path, memory) == []


def test_only_numbers_still_in_memory_are_renewed(tmp_path: Path) -> None:
    """With the numbers that the descriptor has now."""
    file = tmp_path / "file"
    file.touch()
    descriptor = os.open(file, os.O_RDWR)
    memory = ctypes.create_string_buffer(PAIR + b"another number..", 32)
    at = ctypes.addressof(memory)
    try:
        remembered.renew([os.getpid()], [NumberPlaces(_inner(), descriptor, PAIR, (at, at + 16, 8))])
        told = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    assert memory.raw == struct.pack("=QQ", told.st_dev, told.st_ino) + b"another number.."


def test_ended_and_reopened_descriptors_are_not_renewed() -> None:
    """The memory says what it said."""
    memory = ctypes.create_string_buffer(PAIR, 16)
    at = ctypes.addressof(memory)
    reader, writer = os.pipe()
    try:
        for pid, fd in ((1 << 22, 0), (_inner(), reader), (_inner(), 999_999)):
            remembered.renew([os.getpid()], [NumberPlaces(pid, fd, PAIR, (at,))])
    finally:
        os.close(reader)
        os.close(writer)
    assert memory.raw == PAIR


def test_notes_are_read_again(tmp_path: Path) -> None:
    """A snapshot without a note has none."""
    assert remembered.read_numbers(tmp_path) == []
    (tmp_path / remembered.NUMBERS_FILE).write_text(json.dumps([[7, 5, 191, 2**63, MODE, LINKS]]))
    assert remembered.read_numbers(tmp_path) == [Numbers(7, 5, 191, 2**63, MODE, LINKS)]


@pytest.mark.parametrize(
    "noted",
    [
        "{",
        "{}",
        "[[7, 5, 191, 12]]",
        "[[7, 5, 191, 0, 1, 1]]",
        "[[7, 5, 191, -1, 1, 1]]",
        "[[7, 5, 191, true, 1, 1]]",
        "[[7, 5, 191, 18446744073709551616, 1, 1]]",
        '[[7, 5, 191, 12, 1, "1"]]',
        "[" * 100_000,
    ],
)
def test_a_note_of_an_unexpected_form_is_refused(tmp_path: Path, noted: str) -> None:
    """It can come from elsewhere."""
    (tmp_path / remembered.NUMBERS_FILE).write_text(noted)
    with pytest.raises(ImagesUnreadable, match=remembered.NUMBERS_FILE):
        remembered.read_numbers(tmp_path)


def _inner() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:"))
