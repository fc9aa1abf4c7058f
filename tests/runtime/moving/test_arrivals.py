"""Parts that arrive: whole and as their digests say, or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import random
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BundleRefused, StoreError
from holdfast.runtime.moving.receiver import Arrivals

DATA = random.Random(1).randbytes(3 << 20)  # the same in each worker: the parameters below name its digest
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


def test_a_part_arrives(tmp_path: Path) -> None:
    """And no byte behind it is read."""
    arrivals, stream = Arrivals(tmp_path / "parts"), io.BytesIO(DATA + b"next")
    assert not arrivals.has(DIGEST, len(DATA))
    arrivals.take(DIGEST, len(DATA), stream)
    assert arrivals.has(DIGEST, len(DATA))
    assert not arrivals.has(DIGEST, len(DATA) + 1)
    assert stream.read() == b"next"
    (part,) = (tmp_path / "parts").iterdir()
    assert part.read_bytes() == DATA
    assert part.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("digest", "sent"),
    [
        (DIGEST, DATA[:-1] + b"x"),
        (DIGEST, DATA[:-1]),
        (DIGEST, b""),
        ("sha256:../../../etc/passwd", DATA),
        ("sha256:" + "0" * 64, DATA),
        ("", DATA),
        ("../x", DATA),
    ],
)
def test_mismatching_data_is_not_kept(tmp_path: Path, digest: str, sent: bytes) -> None:
    """And the rest of it is skipped, so that the next request can be read."""
    arrivals, stream = Arrivals(tmp_path / "parts"), io.BytesIO(sent + b"next" * (len(sent) == len(DATA)))
    with pytest.raises(BundleRefused):
        arrivals.take(digest, len(DATA), stream)
    assert stream.read() in (b"next", b"")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its room nor the number of files it can have."""

    class Full:
        f_bavail, f_frsize, f_files, f_favail = 1 << 18, 4096, 1 << 20, 1 << 19

    class Crowded:
        f_bavail, f_frsize, f_files, f_favail = 1 << 30, 4096, 1 << 20, 9999

    for room, said in ((Full, "1024 MiB would stay free"), (Crowded, "fewer than 10000 more files")):
        monkeypatch.setattr(os, "statvfs", lambda _, room=room: room)
        stream = io.BytesIO(DATA + b"next")
        with pytest.raises(StoreError, match=said):
            Arrivals(tmp_path / "parts").take(DIGEST, len(DATA), stream)
        assert stream.read() == b"next"
    Crowded.f_files = 0  # btrfs has no such number
    Arrivals(tmp_path / "parts").take(DIGEST, len(DATA), io.BytesIO(DATA))


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    """A part replaces what has its name."""
    folder, victim = tmp_path / "parts", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("mine")
    (folder / DIGEST[7:]).symlink_to(victim)
    Arrivals(folder).take(DIGEST, len(DATA), io.BytesIO(DATA))
    assert victim.read_text() == "mine"


def test_an_unwritable_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tempfile.mkstemp", fail)
    with pytest.raises(StoreError, match=r"cannot write to .*: Input/output error"):
        Arrivals(tmp_path / "parts").take(DIGEST, len(DATA), io.BytesIO(DATA))
