"""A second bundle of a series: based on the first one's content, and refused if that has changed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from tests.runtime.transfer.test_unpack_parts import Blobs, _config

from holdfast.errors import BundleRefused
from holdfast.runtime.moving.receiver import Arrived
from holdfast.runtime.transfer import bundle_series
from holdfast.runtime.transfer.bundle_series import BundleSeries, EarlierImport, ImportSeries
from holdfast.runtime.transfer.inspection import SearchedFiles
from holdfast.runtime.transfer.outgoing_parts import OutgoingSegments
from holdfast.runtime.transfer.unpack_parts import BundleSegments, BundleSource
from holdfast.snapshots.bundle import bundle_segments, form, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.form import BundleConfig, FileInParts, FilePart, LayerSegment

PAGE = 4096
NAME = "images/pages-1.img"
SEARCHED = SearchedFiles(None, {})


class Ends:
    """Both ends of a series, with the files that travel between them."""

    def __init__(self, folder: Path) -> None:
        self.origin = Blobs()
        self.series = BundleSeries()
        self.sent: list[BlobDescriptor] = []
        self.here, self.there = folder / "here", folder / "there"
        for each in (self.here, self.there):
            (each / "images").mkdir(parents=True)

    def send(self, data: bytes) -> tuple[BundleConfig, list[BlobDescriptor]]:
        """Send a file in the way of `send`; return the receiver's view of it."""
        path = self.here / NAME
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        kept = _config({NAME: len(data)}).snapshot
        outgoing = OutgoingSegments(
            self._put, lambda blob: blob.digest in self.origin.blobs, _quiet, self.series
        )
        self.sent.clear()
        changes = self.series.changes(self.here, kept)
        if self.series.earlier is not None and NAME in changes:
            file = outgoing.changed(path, NAME, changes[NAME], self.series.earlier)
        else:
            file = outgoing.file(path, NAME)
            self.series.sent(self.here, [file], outgoing.segments, outgoing.blobs, SEARCHED)
        config = _config({NAME: len(data)}).model_copy(
            update={"files": [file], "segments": outgoing.segments}
        )
        return BundleConfig.model_validate(config.model_dump()), outgoing.blobs

    def receive(
        self,
        config: BundleConfig,
        blobs: list[BlobDescriptor],
        name: str,
        earlier: EarlierImport | None = None,
    ) -> bytes:
        """Assemble the file, and return it."""
        self.origin.asked.clear()
        parts = BundleSegments(BundleSource(self.origin), blobs, config.segments, _quiet, earlier=earlier)
        parts.write(config.files[0], self.there / name)
        return (self.there / name).read_bytes()

    def first(self, data: bytes) -> EarlierImport:
        """Send and receive a first bundle; return the kept parts of it."""
        config, blobs = self.send(data)
        assert self.receive(config, blobs, NAME) == data
        return EarlierImport(self.there, config, blobs)

    def _put(self, media_type: str, data: bytes) -> BlobDescriptor:
        made = self.origin.add(media_type, data)
        self.sent.append(made)
        return made


def _quiet(_count: int) -> None:
    pass


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = Ends(tmp_path)
    with made.series:
        yield made


def _changed(data: bytes, seed: int) -> bytes:
    """Return memory as it could be a moment later: pages that came, disappeared, and have changed; and
    zeros."""
    chance = random.Random(seed)
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    pages[100:100] = [chance.randbytes(PAGE) for _ in range(5)]
    del pages[300:320]
    for _ in range(20):
        pages[chance.randrange(len(pages))] = chance.randbytes(PAGE)
    pages[700:700] = [bytes(PAGE)] * 80
    return b"".join(pages)


MEMORY = random.Random(0).randbytes(1500 * PAGE) + bytes(200 * PAGE) + random.Random(1).randbytes(900 * PAGE)


@pytest.mark.parametrize("seed", range(5))
def test_a_second_bundle_sends_and_reads_only_new_parts(ends: Ends, seed: int) -> None:
    earlier = ends.first(MEMORY)
    data = _changed(MEMORY, seed)

    config, blobs = ends.send(data)

    assert sum(blob.size for blob in ends.sent) < len(data) // 5
    assert ends.receive(config, blobs, "again", earlier) == data
    assert set(ends.origin.asked) == {blob.digest for blob in ends.sent}


def test_removed_history_is_reported(ends: Ends) -> None:
    """Sent bytes are then read again, within the bounds for any bundle."""
    earlier = ends.first(MEMORY)
    config, blobs = ends.send(_changed(MEMORY, 1))
    (ends.there / NAME).unlink()

    with pytest.raises(BundleRefused, match="far more segments"):
        ends.receive(config, blobs, "again", earlier)

    config, blobs = ends.send(MEMORY)
    assert ends.receive(config, blobs, "same", earlier) == MEMORY


@pytest.mark.parametrize("damage", ["changed", "shorter"])
def test_damage_to_kept_parts_does_not_pass(ends: Ends, damage: str) -> None:
    """A result made of it differs from its digest, which `receive` compares; a short part is read again."""
    earlier = ends.first(MEMORY)
    config, blobs = ends.send(MEMORY)
    with (ends.there / NAME).open("r+b") as file:
        if damage == "changed":
            file.seek(5 * PAGE)
            file.write(b"damage")
        else:
            file.truncate(2000 * PAGE)
    data = ends.receive(config, blobs, "again", earlier)
    assert (blake3(data).digest() == blake3(MEMORY).digest()) == (damage == "shorter")


def test_the_earlier_snapshot_can_be_removed_or_change(ends: Ends) -> None:
    """It was opened when it was sent; a page that changed on the disk is sent."""
    earlier = ends.first(MEMORY)
    path = ends.here / NAME
    with path.open("r+b") as file:
        file.seek(5 * PAGE)
        file.write(b"damage")
    config, blobs = ends.send(MEMORY)
    assert sum(segment.bytes for segment in config.segments if segment.bytes <= PAGE) == PAGE
    assert ends.receive(config, blobs, "again", earlier) == MEMORY


def test_without_a_receiver_that_keeps_it_all_is_described_again(ends: Ends) -> None:
    """Segments that did not change are not packed again."""
    ends.first(MEMORY)
    ends.series.close()
    config, blobs = ends.send(MEMORY)
    assert ends.sent == []
    assert ends.receive(config, blobs, "again") == MEMORY


def test_a_file_in_too_many_pieces_is_sent_whole(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = ends.first(MEMORY)
    monkeypatch.setattr(bundle_series, "MOST_RANGES", 3)
    data = _changed(MEMORY, 1)
    config, blobs = ends.send(data)
    assert len(config.files[0].parts) < 10
    assert ends.receive(config, blobs, "again", earlier) == data


def test_segments_that_were_not_sent_are_refused(ends: Ends, tmp_path: Path) -> None:
    """Under digests of one's own, under digests in the home, and with a wrong size or place."""
    earlier = ends.first(MEMORY)
    config, blobs = ends.send(MEMORY)
    secret = b"what another import brought" * 100
    never = form.described(media.SEGMENT, bundle_segments.segment(secret))
    named = LayerSegment(bytes=len(secret), blake3=blake3(secret).hexdigest())
    real, known = config.segments[0], blobs[0]
    source = BundleSource(Arrived("a move from x", b""))
    for segment, blob, part in (
        (named, never, FilePart(segment=0, bytes=len(secret))),
        (real, never, FilePart(segment=0, bytes=PAGE)),
        (named, known, FilePart(segment=0, bytes=PAGE)),
        (real.model_copy(update={"bytes": real.bytes + PAGE}), known, FilePart(segment=0, bytes=PAGE)),
        (real, known, FilePart(segment=0, offset=real.bytes - PAGE, bytes=2 * PAGE)),
        (real, known, FilePart(segment=1, bytes=PAGE)),
    ):
        parts = BundleSegments(source, [blob], [segment], _quiet, earlier=earlier)
        with pytest.raises(BundleRefused):
            parts.write(FileInParts(name="x", parts=[part]), tmp_path / os.urandom(4).hex())


def test_only_the_first_import_is_kept_and_only_while_it_is_there(ends: Ends, tmp_path: Path) -> None:
    config, blobs = ends.send(MEMORY)
    series = ImportSeries()
    series.imported(tmp_path / "gone", config, blobs, "an image")
    assert series.earlier is None
    series.imported(ends.there, config, blobs, "another")
    first = series.earlier
    series.imported(ends.there, config, blobs, "another")
    assert series.earlier is first is not None
    series.close()
    assert series.earlier is None
