"""The program of every session's first process, as a file of the home."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.sessions import init_program


def test_of_two_concurrent_writers_the_first_wins(tmp_path: Path) -> None:
    """A container was started from that file, and is known by its inode."""
    first = init_program._write(tmp_path / "image", b"program")
    inode = first.stat().st_ino

    assert init_program._write(tmp_path / "image", b"program") == first
    assert first.stat().st_ino == inode
    assert (first.read_bytes(), first.stat().st_mode & 0o777) == (b"program", 0o500)
    assert [path.name for path in first.parent.iterdir()] == [first.name]
