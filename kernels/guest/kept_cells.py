"""The cell that a kernel runs, as a supervisor leaves it to the next one.  Pure.

It knows the fields of the record, which the keeper holds, and what readers of an adopted cell are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.kernels.guest.cell_log import CellRecord
from holdfast.kernels.guest.messages import Cell
from holdfast.runtime.guest.identity.actor import Who
from holdfast.runtime.guest.pulse.process_lineage import short

MISSED = "[the session's supervisor was killed and started again; output of that moment may be missing]\n"
LONGEST = 500
"""Characters of a reason that are kept."""
UNHEARD = (
    "[the cell ended while the session's supervisor was being started again: how is not known; its kernel "
    "and variables are as it left them]\n"
)


def kept(record: CellRecord, message: str, begin: int, sent: float, code: str) -> dict[str, Any]:
    """Return the record of a cell: the message that had its code, and where its events begin.

    `sent` is in Unix seconds.
    """
    who = record.who
    return {
        "id": record.cell.id,
        "timeout": record.cell.timeout,
        "who": [who.actor, who.reason and who.reason[:LONGEST], who.key, who.request],
        "message": message,
        "begin": begin,
        "began": round(sent, 3),
        "code": short(code),
    }


def adopted(fields: Mapping[str, Any], epoch: int) -> CellRecord:
    """Return the cell that `kept` recorded."""
    cell = Cell(str(fields["id"]), fields["timeout"])
    cell.epoch, cell.started = epoch, True
    record = CellRecord(cell, Who(*fields["who"]))
    record.running = True
    return record
