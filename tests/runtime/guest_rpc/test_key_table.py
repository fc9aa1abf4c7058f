"""A file of keys is read in pages, however many keys it has."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from holdfast.runtime.guest_rpc.key_table import PAGE, ROOM, SLOT, KeyTable

COUNT = 3000


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyTable:
    monkeypatch.setattr(os, "fdatasync", lambda _file: None)
    return KeyTable(tmp_path / "s.keys")


def read_by(monkeypatch: pytest.MonkeyPatch, table: KeyTable, key: str) -> int:
    """Return how many bytes are read to look for a key."""
    total, pread = 0, os.pread

    def counted(file: int, size: int, offset: int) -> bytes:
        nonlocal total
        found = pread(file, size, offset)
        total += len(found)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", counted)
        table.find(key)
    return total


def test_a_key_is_found_in_a_few_pages_among_thousands(
    table: KeyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes read grow with the logarithm of the number of keys; the same holds for a missing key."""
    for number in range(COUNT):
        table.put(f"key {number}", b"%d" % number)
    assert all(table.find(f"key {number}") == b"%d" % number for number in range(COUNT))
    most = max(read_by(monkeypatch, table, key) for key in ("key 0", f"key {COUNT - 1}", "missing"))
    assert most <= 12 * PAGE, "of more than a hundred"
    assert table.find("missing") is None


def test_the_last_record_of_a_key_counts(table: KeyTable) -> None:
    size = []
    for record in (b"first", b"", b"x" * ROOM, b"last"):
        table.put("key", record)
        assert table.find("key") == record
        size.append(table._path.stat().st_size)
    assert set(size) == {SLOT}


def test_damage_to_one_slot_loses_no_other_key(table: KeyTable) -> None:
    """Wherever a bit is wrong, each other key is found, and can be written."""
    for number in range(40):
        table.put(str(number), b"%d" % number)
    whole, chosen = table._path.read_bytes(), random.Random(7)
    used = [at for at in range(len(whole)) if any(whole[at - at % SLOT : at - at % SLOT + SLOT])]
    for at in chosen.sample(used, 200):
        table._path.write_bytes(whole[:at] + bytes((whole[at] ^ 1 << chosen.randrange(8),)) + whole[at + 1 :])
        found = [table.find(str(number)) for number in range(40)]
        assert sum(each is None for each in found) <= 1
        assert all(each in (None, b"%d" % number) for number, each in enumerate(found))
        table.put("new", b"value")
        assert table.find("new") == b"value"


def test_many_write_at_once(table: KeyTable) -> None:
    def write(writer: int) -> None:
        for number in range(50):
            table.put(f"{writer} {number}", b"%d" % writer)

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(6)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert all(
        table.find(f"{writer} {number}") == b"%d" % writer for writer in range(6) for number in range(50)
    )
