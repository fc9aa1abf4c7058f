"""Nothing whose size a session decides is kept in memory as a whole."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import peak_memory

from holdfast.procfs import bounded
from holdfast.snapshots.checkpointer.layers import keep
from holdfast.snapshots.checkpointer.record.kernel_record import Mappings

# A third of the mappings that a process can have, of a file with as long a name as there is, and all words.
CROWDED = """
import ctypes, os, sys
os.chdir(sys.argv[1])
for _ in range(15):
    os.mkdir("d" * 250); os.chdir("d" * 250)
file = os.open("f" * 200, os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for number in range(20_000):
    libc.mmap(None, 4096, 3, 1, file, 0)  # readable, writable, shared
print("ready", flush=True)
sys.stdin.read()
"""
LOOK = """
import sys
from pathlib import Path
from holdfast.snapshots.checkpointer.layers import keep
from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.record.kernel_record import Mappings
pid = int(sys.argv[1])
print(len(keep.mapped_files([pid])), len(Mappings(lambda _: True).foreign(pid)), len(walk.command_of(pid)))
"""
LITTLE = 64 << 10
"""Kilobytes for the whole of Python and what is read: the list alone has 80 megabytes."""


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[int]:
    words = ["x" * 120_000] * 16
    with subprocess.Popen(
        [sys.executable, "-c", CROWDED, str(tmp_path), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_a_process_with_many_mappings_of_long_names_costs_little_memory(crowded: int, tmp_path: Path) -> None:
    """They are looked at to the last one, a few at a time; of the words only the first are."""
    output = tmp_path / "out"
    code, kilobytes = peak_memory.run([sys.executable, "-c", LOOK, str(crowded)], os.environ, output)

    assert code == 0
    assert output.read_text().split() == ["1", "0", "4096"]
    assert kilobytes < LITTLE


def test_a_file_is_read_up_to_its_bound_and_no_further(tmp_path: Path) -> None:
    """A file of exactly the bound is read; one byte more is an error, not a part of it."""
    (tmp_path / "file").write_bytes(b"x" * 100_000)

    assert len(bounded.read(tmp_path / "file", 100_000)) == 100_000
    with pytest.raises(bounded.TooLong, match="longer than 99999 bytes"):
        bounded.read(tmp_path / "file", 99_999)
    with pytest.raises(bounded.TooLong):
        bounded.read(Path("/dev/zero"), 1 << 20)


def test_a_link_is_not_read(tmp_path: Path) -> None:
    """It could lead anywhere."""
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        bounded.read(tmp_path / "link", 1 << 20)


def test_no_line_is_cut(tmp_path: Path) -> None:
    """However long lines are and wherever a read ends; together they are the file."""
    chance = random.Random(7)
    data = b"".join(b"x" * chance.randrange(9000) + b"\n" for _ in range(200)) + b"the last"
    (tmp_path / "file").write_bytes(data)
    found = list(bounded.lines(tmp_path / "file", len(data)))

    assert b"".join(found) == data
    assert len(found) > 2
    assert all(some.endswith(b"\n") for some in found[:-1])
    assert max(map(len, found)) <= 2 * bounded.PIECE


def test_lines_have_a_bound_together_and_each(tmp_path: Path) -> None:
    """Neither a file without end nor a line without end is taken in."""
    (tmp_path / "file").write_bytes(b"line\n" * 100)
    with pytest.raises(bounded.TooLong):
        list(bounded.lines(tmp_path / "file", 499))
    (tmp_path / "long").write_bytes(b"x" * (3 * bounded.PIECE))
    with pytest.raises(bounded.TooLong):
        list(bounded.lines(tmp_path / "long", 1 << 30))


def test_memory_mapped_for_writing_is_known_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is left out would not be copied again: more than is kept in mind ends the capture."""
    (tmp_path / "7").mkdir()
    line = "7f0000000000-7f0000001000 rw-s 00000000 08:01 %d                  /srv/%s\n"
    (tmp_path / "7" / "maps").write_text("".join(line % (n + 1, f"{n}" * 10) for n in range(100)))

    assert len(keep.mapped_files([7], tmp_path)) == 100
    monkeypatch.setattr(keep, "MAX_MAPPED_TEXT", 500)
    with pytest.raises(OSError, match="mapped for writing"):
        keep.mapped_files([7], tmp_path)


def test_mappings_that_cannot_all_be_judged_are_not_the_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list beyond the reading limit is a reason to refuse, not to stop looking."""
    monkeypatch.setattr("holdfast.procfs.walk.MAX_MAPS", 200)

    assert Mappings(lambda _: True).foreign(os.getpid()) == ["memory (of more files than can be checked)"]
