"""The events of a kernel's cells, on disk, so that a client that was disconnected can catch up.

A supervisor that is killed leaves its running cell to the next one: this module defines the fields of the
cell's record, which the keeper holds, and the events shown to its readers.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.kernels.guest.messages import Cell
from holdfast.runtime.guest.identity.actor import Who
from holdfast.runtime.guest.pulse.process_lineage import short
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.wire.protocol import Frame, FrameError, encode, frame_at

CAPACITY = 64 << 20
KEPT_CELLS = 200
LATE_CELLS = 50
"""Cells whose threads can still print after the cell is over; later output belongs to no cell."""
MISSED = "[the session's supervisor was killed and started again; output of that moment may be missing]\n"
LONGEST_REASON = 500
"""Characters of a reason that are kept."""
UNHEARD = (
    "[the cell ended while the session's supervisor was restarting, so its outcome "
    "is unknown; its kernel and variables are as it left them]\n"
)


class CellRecord:
    """One cell and the place of its events. Events are numbered from 1."""

    def __init__(self, cell: Cell, who: Who) -> None:
        self.cell = cell
        self.who = who
        self.running = False
        """True once the kernel has said that it runs the code: an interrupt before that is lost."""
        self.open_input: int | None = None
        """Number of the question that waits for an answer."""
        self.asks_password = False
        self.inputs: set[int] = set()
        self.offsets = array("Q")
        self.lengths = array("L")


class SentCells:
    """The latest cells whose code was sent to a process, by the id of the message that had it."""

    def __init__(self) -> None:
        self._records: dict[str, CellRecord] = {}

    def add(self, message: str, record: CellRecord) -> None:
        """Note that this message has the cell's code."""
        self._records[message] = record
        over = [key for key, each in self._records.items() if each.cell.over]
        for key in over[:-LATE_CELLS]:
            del self._records[key]

    def of(self, message: str) -> CellRecord | None:
        """Return the cell that a message answers, by the id of its parent."""
        return self._records.get(message)


class CellEvents:
    """Events of the latest cells of one kernel."""

    def __init__(self, folder: Path, kept: int | None = None) -> None:
        """Start an empty log, or continue an earlier supervisor's there, kept from an offset."""
        self._log = StreamLog(folder, CAPACITY, kept=kept)
        self._records: dict[str, CellRecord] = {}

    def find(self, id_: str) -> CellRecord | None:
        """Return the cell of that id, if it is known."""
        return self._records.get(id_)

    def open(self, cell: Cell, who: Who) -> CellRecord:
        """Begin to record a cell."""
        for old in [key for key, record in self._records.items() if record.cell.over][:-KEPT_CELLS]:
            del self._records[old]
        record = self._records[cell.id] = CellRecord(cell, who)
        return record

    @property
    def bounds(self) -> tuple[int, int]:
        """The offsets of the oldest byte that is kept, and after the newest."""
        return self._log.start, self._log.end

    def adopt(self, record: CellRecord, begin: int) -> Iterator[Frame]:
        """Find the events of a cell again, which began at this offset, among events of other cells."""
        self._records[record.cell.id] = record
        position = max(begin, self._log.start)
        with suppress(FrameError):  # on a disk that was full, a gap
            while (found := frame_at(position, self._log.read)) is not None:
                frame, length = found
                if frame.head.get("seq") == len(record.offsets) + 1:
                    record.offsets.append(position)
                    record.lengths.append(length)
                    if frame.head.get("event") == "input_request":
                        record.inputs.add(len(record.offsets))
                    yield frame
                position += length

    def forget(self, id_: str) -> None:
        """Forget a refused cell: its id can be used again."""
        self._records.pop(id_, None)

    def add(self, record: CellRecord, event: Frame) -> None:
        """Record an event in the form its client receives."""
        number = len(record.offsets) + 1
        data = encode(Frame({**event.head, "seq": number}, event.payload))
        if event.event == "input_request":
            record.inputs.add(number)
            record.open_input = number
            record.asks_password = event.head.get("password") is True
        record.offsets.append(self._log.end)
        record.lengths.append(len(data))
        self._log.append(data)

    def wake(self) -> None:
        """Wake readers to look at the cell again."""
        self._log.wake()

    async def over_within(self, record: CellRecord, seconds: float) -> bool:
        """Wait until a cell is over; return False after the time limit."""
        try:
            async with asyncio.timeout(seconds):
                while not record.cell.over:
                    await self.changed()
        except TimeoutError:
            return record.cell.over
        return True

    async def changed(self) -> None:
        """Wait for an event or for `wake`."""
        await self._log.more()

    async def replay(self, record: CellRecord, after: int) -> AsyncIterator[bytes]:
        """Yield the events after number `after`, encoded, until the cell is over."""
        number = max(after, 0) + 1
        while True:
            missing = size = 0
            while number <= len(record.offsets):
                offset = record.offsets[number - 1]
                if offset < self._log.start:
                    missing += 1
                    size += record.lengths[number - 1]
                else:
                    if missing:
                        yield _gap(number, missing, size)
                        missing = size = 0
                        continue
                    if number not in record.inputs or number == record.open_input:
                        yield self._log.read(offset, record.lengths[number - 1])
                number += 1
            if missing:
                yield _gap(number, missing, size)
            if record.cell.over:
                return
            await self.changed()


def _gap(before: int, count: int, size: int) -> bytes:
    return encode(Frame({"event": "gap", "seq": before - count, "count": count, "size": size}))


def kept_cell(record: CellRecord, message: str, begin: int, sent: float, code: str) -> dict[str, Any]:
    """Return the record of a cell: the message that had its code, and where its events begin.

    `sent` is in Unix seconds.
    """
    who = record.who
    return {
        "id": record.cell.id,
        "timeout": record.cell.timeout,
        "who": [who.actor, who.reason and who.reason[:LONGEST_REASON], who.key, who.request],
        "message": message,
        "begin": begin,
        "began": round(sent, 3),
        "code": short(code),
    }


def adopted_cell(fields: Mapping[str, Any], epoch: int) -> CellRecord:
    """Return the cell that `kept` recorded."""
    cell = Cell(str(fields["id"]), fields["timeout"])
    cell.epoch, cell.started = epoch, True
    record = CellRecord(cell, Who(*fields["who"]))
    record.running = True
    return record
