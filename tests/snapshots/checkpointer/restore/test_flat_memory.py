"""The memory of several captures as one image: refusals of images that no capture writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.snapshots.checkpointer.dump import plain_messages

plain_messages.install()

from pycriu.images import pagemap_pb2  # noqa: E402

from holdfast.snapshots.checkpointer.carried.heaps import IN_EARLIER, LAZY, PAGE, PRESENT  # noqa: E402
from holdfast.snapshots.checkpointer.criu import criu_images  # noqa: E402
from holdfast.snapshots.checkpointer.record import ImagesUnreadable  # noqa: E402
from holdfast.snapshots.checkpointer.record.earlier_names import MOST, named  # noqa: E402
from holdfast.snapshots.checkpointer.restore.flat_memory import FlatMemory, WaitingPages  # noqa: E402

MAGIC = criu_images._magic("pagemap")
HELD = PRESENT | LAZY


def capture(folder: Path, captures: int, *entries: tuple[int, int, int], pages: int | None = None) -> None:
    """Write the images of one process from that many captures before; entries: page, pages, flags."""
    made = [
        pagemap_pb2.pagemap_entry(vaddr=at * PAGE, compat_nr_pages=0, nr_pages=count, flags=flags)
        for at, count, flags in entries
    ]
    head = pagemap_pb2.pagemap_head(pages_id=7)
    criu_images.write(folder / named(captures, "pagemap-5.img"), MAGIC, [head, *made])
    size = sum(count for _, count, flags in entries if flags & PRESENT) if pages is None else pages
    (folder / named(captures, "pages-7.img")).write_bytes(bytes([captures + 1]) * size * PAGE)


def test_pages_that_wait_stay_where_they_are(tmp_path: Path) -> None:
    """The others are copied to the places that CRIU counts."""
    capture(tmp_path, 0, (1, 1, HELD), (2, 2, IN_EARLIER), (10, 1, HELD), (11, 2, IN_EARLIER))
    capture(tmp_path, 1, (2, 1, HELD), (3, 1, IN_EARLIER), (11, 2, HELD))
    capture(tmp_path, 2, (1, 5, HELD))
    made = tmp_path / "made"
    made.mkdir()
    places = WaitingPages()
    marked = FlatMemory(tmp_path, "5").marked([(10 * PAGE, 13 * PAGE)])
    assert marked.waiting_pages == 3
    marked.write(made, places)
    pages = (made / "pages-7.img").read_bytes()
    assert [pages[at * PAGE] for at in range(6)] == [1, 2, 3, 0, 0, 0]
    lines = (places._lines[0].split(), places._lines[1].split())
    assert [(line[1], line[2], line[4]) for line in lines] == [
        (str(3 * PAGE), str(PAGE), str(PAGE)),
        (str(4 * PAGE), str(2 * PAGE), str(PAGE)),
    ]
    places.close()


def test_pages_that_no_capture_has_are_refused(tmp_path: Path) -> None:
    """A page named as an earlier capture's, in a chain that lacks it, is not a page of zeros."""
    capture(tmp_path, 0, (1, 2, IN_EARLIER))
    with pytest.raises(ImagesUnreadable, match="lacks pages"):
        FlatMemory(tmp_path, "5")
    capture(tmp_path, 1, (1, 1, HELD))
    with pytest.raises(ImagesUnreadable, match="no earlier capture has"):
        FlatMemory(tmp_path, "5")


def test_a_chain_without_end_is_refused(tmp_path: Path) -> None:
    """More captures than a snapshot reaches back are not followed."""
    for captures in range(MOST + 1):
        capture(tmp_path, captures, (1, 1, IN_EARLIER))
    with pytest.raises(ImagesUnreadable, match="too many captures"):
        FlatMemory(tmp_path, "5")


def test_more_pages_than_their_file_has_are_refused(tmp_path: Path) -> None:
    """An entry of 2^50 pages is refused before anything counts them."""
    capture(tmp_path, 0, (1, 1 << 50, HELD), pages=1)
    with pytest.raises(ImagesUnreadable, match="shorter"):
        FlatMemory(tmp_path, "5")


def test_a_page_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """Two readers could take different ones."""
    capture(tmp_path, 0, (1, 3, HELD), (2, 2, HELD))
    with pytest.raises(ImagesUnreadable, match="twice"):
        FlatMemory(tmp_path, "5")
