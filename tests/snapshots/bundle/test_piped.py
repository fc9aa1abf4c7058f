from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.errors import BundleRefused, StoreError
from holdfast.snapshots.bundle import form, piped
from holdfast.snapshots.bundle.endpoints import BundleDestination
from holdfast.snapshots.bundle.oci_layout import FileDestination
from holdfast.snapshots.bundle.piped import PipeDestination, PipeOrigin

LARGE = os.urandom(1 << 20)
BLOB = form.described("application/octet-stream", LARGE)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def _send(destination: BundleDestination) -> None:
    with destination:
        destination.put(BLOB, io.BytesIO(LARGE))
        destination.finish(b'{"manifests":[]}')


def test_more_than_a_pipe_holds_passes_through_it(pipe: tuple[int, int], tmp_path: Path) -> None:
    """It is read while it is written, and nothing can be seen in the folder."""

    def write() -> None:
        _send(PipeDestination(pipe[1], "name"))
        os.close(pipe[1])

    writer = threading.Thread(target=write)
    writer.start()
    with PipeOrigin(pipe[0], tmp_path) as origin:
        writer.join()
        assert origin.index() == b'{"manifests":[]}'
        with origin.open(BLOB, 1000) as stream:
            assert stream.read() == LARGE[1000:]
        assert not list(tmp_path.iterdir())


def test_the_archive_is_the_one_in_a_file(tmp_path: Path) -> None:
    """Either end may be a file: `cat` joins them."""
    _send(FileDestination(tmp_path / "file", "name"))
    with (tmp_path / "piped").open("wb") as stream:
        _send(PipeDestination(stream.fileno(), "name"))

    assert (tmp_path / "piped").read_bytes() == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("kept", [0, 700, 600_000, 1 << 20], ids=str)
def test_a_connection_that_ends_early_is_refused(kept: int, tmp_path: Path) -> None:
    """Wherever it ends, and nothing stays in the folder."""
    whole, cut, room = tmp_path / "whole", tmp_path / "cut", tmp_path / "room"
    room.mkdir()
    _send(FileDestination(whole))
    cut.write_bytes(whole.read_bytes()[:kept])

    with (
        cut.open("rb") as stream,
        pytest.raises(BundleRefused, match="cannot import what came through the pipe"),
        PipeOrigin(stream.fileno(), room) as origin,
    ):
        origin.index()
    assert not list(room.iterdir())


def test_a_reader_that_goes_away_is_one_clear_error(pipe: tuple[int, int]) -> None:
    """Not a signal, and no traceback."""
    os.close(pipe[0])
    with pytest.raises(StoreError, match="cannot write the bundle to a pipe: Broken pipe"):
        _send(PipeDestination(pipe[1]))


def test_a_folder_that_cannot_take_it_is_one_clear_error(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(StoreError, match="cannot read the bundle from a pipe: No such file"):
        PipeOrigin(0, tmp_path / "none").__enter__()


def test_a_pipe_without_end_does_not_fill_the_disk(
    pipe: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends while there is room for others, and what was read is gone."""
    monkeypatch.setattr(piped, "LEAST", 1 << 60)
    os.write(pipe[1], b"x")
    with pytest.raises(StoreError, match="would stay free"):
        PipeOrigin(pipe[0], tmp_path).__enter__()
    assert not list(tmp_path.iterdir())
