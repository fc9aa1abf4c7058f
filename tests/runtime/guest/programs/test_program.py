"""A program's output is recorded; it waits only for a reader that is far behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.runtime.guest.programs import program
from holdfast.runtime.guest.programs.program import RecordedPipe


class Writer:
    """The writing end of a recorded pipe, which counts what it took."""

    def __init__(self, folder: Path) -> None:
        reading, self.descriptor = os.pipe2(os.O_NONBLOCK)
        self.taken = 0
        self.pipe = RecordedPipe(reading, folder / "stream", lambda: None)

    def write(self, size: int = 1 << 16) -> bool:
        """Write some; whether the pipe took any."""
        try:
            self.taken += os.write(self.descriptor, b"x" * size)
        except BlockingIOError:
            return False
        return True

    async def fill(self, most: int) -> None:
        """Write until the pipe takes no more for a while, or `most`."""
        idle = 0
        while idle < 50 and self.taken < most:
            idle = 0 if self.write() else idle + 1
            await asyncio.sleep(0)

    def close(self) -> None:
        os.close(self.descriptor)
        self.pipe.close()


def run(tmp_path: Path, check: Callable[[Writer], object]) -> None:
    async def inside() -> None:
        writer = Writer(tmp_path)
        try:
            await check(writer)  # type: ignore[misc]
        finally:
            writer.close()

    asyncio.run(inside())


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LAG", 1 << 20)


def test_nobody_waits_without_a_reader(tmp_path: Path) -> None:
    async def check(writer: Writer) -> None:
        await writer.fill(8 << 20)
        assert writer.taken >= 8 << 20

    run(tmp_path, check)


def test_the_writer_waits_for_a_reader_until_it_has_read_or_left(tmp_path: Path) -> None:
    async def check(writer: Writer) -> None:
        pipe = writer.pipe
        pipe.hold("reader", 0)
        await writer.fill(64 << 20)
        behind = writer.taken
        assert (1 << 20) <= behind < 8 << 20
        pipe.hold("reader", pipe.log.end)
        await writer.fill(64 << 20)
        assert behind < writer.taken < 16 << 20
        pipe.release("reader", finished=True)
        await writer.fill(64 << 20)
        assert writer.taken >= 64 << 20

    run(tmp_path, check)


def test_a_reader_that_was_cut_off_is_waited_for_only_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "ABSENCE", 0.2)

    async def check(writer: Writer) -> None:
        writer.pipe.hold("reader", 0)
        writer.pipe.release("reader", finished=False)
        await writer.fill(64 << 20)
        assert writer.taken < 8 << 20
        while not writer.write():
            await asyncio.sleep(0.01)
        await writer.fill(32 << 20)
        assert writer.taken >= 32 << 20

    run(tmp_path, check)


def test_the_end_is_recorded_however_far_behind_a_reader_is(tmp_path: Path) -> None:
    async def check(writer: Writer) -> None:
        writer.pipe.hold("reader", 0)
        await writer.fill(64 << 20)
        writer.pipe.drain()
        assert writer.pipe.log.end == writer.taken

    run(tmp_path, check)
