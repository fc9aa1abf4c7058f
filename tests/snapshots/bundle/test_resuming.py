from __future__ import annotations

import io
import os
import threading
import time
from pathlib import Path
from typing import BinaryIO, Self

import pytest

from holdfast.errors import BundleRefused, StoreError
from holdfast.snapshots.bundle import form, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.resuming import KEPT, Resuming

DATA = os.urandom(3 << 20)
BLOB = form.described("", DATA)


class Flaky:
    """An origin that ends after some bytes, and notes from where it was read."""

    name = "somewhere"

    def __init__(self, data: bytes = DATA, most: int = 1 << 30) -> None:
        self.data = data
        self.most = most
        self.starts: list[int] = []

    def index(self) -> bytes:
        return b"{}"

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        self.starts.append(start)
        return io.BytesIO(self.data[start : start + self.most])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _read(origin: Flaky, folder: Path, start: int = 0) -> bytes:
    with Resuming(origin, folder) as resuming, resuming.open(BLOB, start) as stream:
        return stream.read()


def test_an_interrupted_fetch_resumes_where_it_stopped(tmp_path: Path) -> None:
    """Also in a different process; parts that are complete here are not requested again."""
    origin = Flaky(most=1 << 20)
    for _ in range(2):
        with pytest.raises(StoreError, match="ended after"):
            _read(origin, tmp_path / "downloads")

    assert _read(origin, tmp_path / "downloads") == DATA
    assert _read(origin, tmp_path / "downloads", 100) == DATA[100:]
    assert origin.starts == [0, 1 << 20, 2 << 20]


def test_data_with_a_wrong_digest_is_not_kept(tmp_path: Path) -> None:
    """The next attempt starts over, and can succeed."""
    with pytest.raises(BundleRefused, match="digest"):
        _read(Flaky(DATA[:-1] + bytes([DATA[-1] ^ 1])), tmp_path / "downloads")
    with pytest.raises(BundleRefused, match="digest"):
        _read(Flaky(DATA + b"more"), tmp_path / "downloads")

    assert _read(Flaky(), tmp_path / "downloads") == DATA


def test_an_imported_bundle_leaves_no_parts(tmp_path: Path) -> None:
    """Nor parts of a bundle that was not requested for a week."""
    folder = tmp_path / "downloads"
    with Resuming(Flaky(), folder) as resuming:
        resuming.open(BLOB).close()
        resuming.discard()
    assert not folder.exists()

    folder.mkdir()
    (folder / "old.part").write_bytes(b"x")
    os.utime(folder / "old.part", (0, time.time() - KEPT - 60))
    with Resuming(Flaky(), folder):
        pass
    assert not folder.exists()


def test_two_concurrent_readers_fetch_a_part_once(tmp_path: Path) -> None:
    """The second waits for the first."""
    origin = Flaky()
    found: list[bytes] = []
    with Resuming(origin, tmp_path / "downloads") as resuming:

        def read() -> None:
            with resuming.open(BLOB) as stream:
                found.append(stream.read())

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert found == [DATA] * 4
    assert origin.starts == [0]


class Several(Flaky):
    """An origin of several parts, which gives none before that many are requested concurrently."""

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self.parts = {form.described("", part).digest: part for part in (os.urandom(100) for _ in range(6))}
        self.blobs = [form.described("", part) for part in self.parts.values()]
        self.together = threading.Barrier(at_once, timeout=60)

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        self.starts.append(start)
        self.together.wait()
        return io.BytesIO(self.parts[blob.digest][start:])


def test_images_are_fetched_before_they_are_opened(tmp_path: Path) -> None:
    """Three at a time, each once."""
    origin = Several(3)
    with Resuming(origin, tmp_path / "downloads") as resuming:
        resuming.ahead(origin.blobs)
        read = []
        for blob in reversed(origin.blobs):
            with resuming.open(blob) as stream:
                read.append(stream.read())
        resuming.discard()
    assert read == list(reversed(origin.parts.values()))
    assert len(origin.starts) == 6
    assert not (tmp_path / "downloads").exists()


def test_a_failure_to_fetch_ahead_is_raised_on_open(tmp_path: Path) -> None:
    """Not before, and nothing is waited for that is no longer wanted."""
    with Resuming(Flaky(most=10), tmp_path / "downloads") as resuming:
        resuming.ahead([BLOB] * 5)
        with pytest.raises(StoreError, match="ended after"):
            resuming.open(BLOB)


def test_memory_that_was_fetched_is_kept_for_later_bundles(tmp_path: Path) -> None:
    """The most recently used, up to a number of bytes; not what was refused."""
    origin, folder = Several(1), tmp_path / "downloads"
    blobs = [BlobDescriptor(media.SEGMENT, each.digest, each.size) for each in origin.blobs]
    other = BlobDescriptor(media.LAYER_GZIP, origin.blobs[0].digest, origin.blobs[0].size)
    with Resuming(origin, folder) as resuming:
        for number, blob in enumerate([other, *blobs[1:]]):
            resuming.open(blob).close()
            os.utime(folder / blob.hex, (time.time() + number - 100,) * 2)
        resuming.keep_segments(350)
    assert {path.name for path in folder.iterdir()} == {blob.hex for blob in blobs[3:]}
    resuming = Resuming(origin, folder).__enter__()
    resuming.open(blobs[5]).close()
    resuming.__exit__(BundleRefused, BundleRefused("it does not match"), None)
    assert {path.name for path in folder.iterdir()} == {blob.hex for blob in blobs[3:5]}


def test_two_concurrent_readers_leave_nothing_half_done(tmp_path: Path) -> None:
    """A reader that waited for the other finds what that one fetched."""
    origin, folder = Several(1), tmp_path / "downloads"
    with Resuming(origin, folder) as resuming:
        for _ in range(50):
            resuming.ahead(origin.blobs)
            for blob in origin.blobs:
                resuming.open(blob).close()
            resuming.discard()
    assert not folder.exists()
