"""One kernel of the session: runs cells one after the other, through deaths and restarts of its process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.kernels.guest.cell_journal import CellJournal
from holdfast.kernels.guest.cell_log import (
    MISSED,
    UNHEARD,
    CellEvents,
    CellRecord,
    SentCells,
    adopted_cell,
    kept_cell,
)
from holdfast.kernels.guest.jupyter_library import KernelFailure
from holdfast.kernels.guest.kernel_life import KernelLife, report_death
from holdfast.kernels.guest.kernel_state import PATIENCE, KernelActivity, VariableQuestions, VariableReader
from holdfast.kernels.guest.messages import Cell, CellStatus, events_of, leaves
from holdfast.kernels.guest.process import KernelProcess, Message
from holdfast.runtime.guest.identity.actor import Who
from holdfast.runtime.guest.jobs.keeper import HeldRecord
from holdfast.runtime.guest.process_surroundings import ProcessSurroundings
from holdfast.runtime.guest.pulse.process_lineage import Origin, short
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest.wire.protocol import Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.kernels.guest.front_ends import FrontCells, FrontEnds

GRACE = 5.0
"""Seconds an interrupted cell has to end before its timeout is reported anyway."""

REPLY = 2.0
"""Seconds for the reply of an idle kernel to arrive: it was written before the kernel said so."""

MOMENT = 0.2
"""Seconds before the first process starts. It and its library compute for most of a second, and what a
session is asked first is usually a command."""

ARRIVAL = 1.0
"""Seconds a kernel has to say that it runs the code it was sent. It ignores interrupts until then, and a
kernel that never says so is interrupted all the same."""

LEFT = "[the cell has ended its kernel: its variables are gone, and the next cell runs in a new one]\n"


class KernelBusy(Exception):
    """Another cell holds the kernel."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.id)
        self.cell = cell


class RunningKernel(KernelLife):
    """A kernel by name, and its cells."""

    def __init__(
        self,
        name: str,
        spec: str,
        workspace: Path,
        surroundings: ProcessSurroundings,
        cell_journal: CellJournal,
        python: str | None = None,
        held: HeldRecord | None = None,
    ) -> None:
        """Prepare a kernel; `held` is the state and process left by a previous supervisor."""
        epoch = int(held.fields["epoch"]) if held else 0
        super().__init__(name, spec, workspace, surroundings, python=python, epoch=epoch)
        folder = surroundings.layout.kernel(name)
        self._held = held
        self._cell_journal = cell_journal
        self.journal = CellEvents(folder / "events", int(held.fields["kept"]) if held else None)
        self._current: CellRecord | None = None
        self._executing: CellRecord | None = None
        """The current cell, once its code was sent."""
        self._cell: dict[str, Any] | None = None
        """That cell, for another supervisor."""
        self._probe = ""
        """The message that an adopted kernel answers once it has done what it was asked before."""
        self._sent = SentCells()
        self._front_cells: FrontCells | None = None
        self._fronts: FrontEnds | None = None
        self._fronts_folder = folder / "front-ends"
        self._questions = VariableQuestions()
        self._observing = KernelActivity(name, cell_journal.waits)

    @property
    def cell_id(self) -> str | None:
        """The id of the cell that holds the kernel, if any."""
        return self._current.cell.id if self._current else None

    @property
    def taken(self) -> bool:
        """True if a cell holds the kernel."""
        return self._current is not None

    def observed(self) -> State:
        """Return its present activity, from a fresh look."""
        return self._observing.state(self.state, self.pid, self._returncode)

    def as_dict(self) -> dict[str, Any]:
        """Return its state, for the wire."""
        return {
            "name": self.name,
            "spec": self.spec,
            "language": self.language,
            "cwd": self.cwd,
            "pid": self.pid,
            "state": self.state,
            "cell_id": self.cell_id,
            "observed": self.observed().as_dict(),
            "execution_count": self.execution_count,
            "epoch": self.epoch,
        }

    def begin(self) -> None:
        """Start the process in the background after a moment; a cell starts it immediately.

        A kernel left by an earlier supervisor is adopted immediately.
        """
        held, self._held = self._held, None
        if held is not None and held.status is None:
            self._starting = True
            is_busy = self._adopt_cell(held.fields.get("cell"))
            self._spawn(self._continue(held, is_busy=is_busy))
            return
        self._keeper.drop(f"kernel:{self.name}")
        self._starting = True
        asyncio.get_running_loop().call_later(MOMENT, lambda: self._spawn(self._start_quietly()))

    def submit(
        self, id_: str, code: str, timeout: float | None, who: Who, before: str | None = None
    ) -> CellRecord:
        """Begin a cell; if the process is dead a new one is started.

        `before` is code that is run first without a trace: no output, no number, no history.

        Raises:
            KernelBusy: another cell holds the kernel.
        """
        if self._current:
            raise KernelBusy(self._current.cell)
        record = self._current = self.journal.open(Cell(id_, timeout), who)
        self._spawn(self._run(record, code, before))
        return record

    def answer(self, text: str, who: Who) -> bool:
        """Answer the open question of the running cell; return False if there is none."""
        record = self._current
        if record is None or record.open_input is None or self._process is None:
            return False
        self.note_answer(text, who)
        self._process.answer(text)
        return True

    def note_answer(self, text: str, who: Who) -> None:
        """Note that the running cell was answered, if one runs."""
        record = self._current
        if record is None:
            return
        self._cell_journal.answered(record.cell, who, text, password=record.asks_password)
        record.open_input = None
        self._observing.answered()
        if self._fronts:
            self._fronts.answered()

    def front_cells(self) -> FrontCells:
        """Return the front ends and their cells, kept from the first call on."""
        if self._front_cells is None:
            from holdfast.kernels.guest.front_ends import FrontCells  # few sessions have any

            self._front_cells = FrontCells(self, self._fronts_folder)
            self._fronts = self._front_cells.fronts
        return self._front_cells

    def open_sent(self, message: str, code: str, who: Who) -> CellRecord:
        """Return a new cell, whose code was sent to the process in that message of a front end."""
        record = self.journal.open(Cell(os.urandom(16).hex()), who)
        record.cell.epoch, record.cell.started = self.epoch, True
        self._sent.add(message, record)
        self._cell_journal.begun(record.cell, code, who, time.time())
        return record

    def hold(self, record: CellRecord, message: str, code: str) -> None:
        """Give a cell of a front end the kernel."""
        self._current = record
        self._begin(record, code)
        self._keep_cell(record, message, code, time.time())

    def look(self, record: CellRecord) -> None:
        """Note how a cell ended, if it has."""
        self._cell_journal.look(record.cell, record.who)

    async def interrupt(self, only: str | None = None) -> None:
        """Interrupt the running cell; with `only`, if that is its id. A cell that has not begun is left
        alone."""
        record = self._current
        if only is not None and (record is None or record.cell.id != only):
            return
        if record is None:
            if self._process:
                await self._process.interrupt()
        elif record is self._executing:
            record.cell.interrupted = True
            await self._reach(record)
        else:
            self._end_current(CellStatus.INTERRUPTED)

    async def _reach(self, record: CellRecord) -> None:
        """Interrupt a cell as soon as its kernel runs it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL):
                while not record.running and not record.cell.over:
                    await self.journal.changed()
        if record is self._executing and self._process:
            await self._process.interrupt()

    async def close(self) -> None:
        """Close the kernel; the running cell dies, and waiting cells are refused."""
        await super().close()
        if self._fronts:
            self._fronts.close()
        self.journal.wake()

    async def variables(self, patience: float = PATIENCE) -> VariableReader:
        """Return the user's names; while a cell runs, or if the answer is late, the last known names."""
        idle = self._process if self.state == "idle" else None
        return await self._questions.ask(idle, self.execution_count, patience)

    async def _run(self, record: CellRecord, code: str, before: str | None) -> None:
        cell = record.cell
        try:
            await self.ensure()
        except KernelFailure as error:
            cell.refusal = str(error)
            self._release(record)
            return
        if cell.over or self._process is None:
            cell.end(CellStatus.DIED)
            self._release(record)
            return
        self._begin(record, code)
        sent = time.time()
        message = self._process.execute(code, before)
        self._sent.add(message, record)
        self._keep_cell(record, message, code, sent)
        cell.epoch = self.epoch
        cell.started = True
        self._cell_journal.begun(cell, code, record.who, sent)
        self.journal.wake()
        if cell.timeout is not None:
            await self._limit(record, cell.timeout)

    def _begin(self, record: CellRecord, code: str) -> None:
        self._executing = record
        self._observing.began()
        if self._fronts:
            self._fronts.began()
        self._origins.begin(self._origin, Origin("cell", record.cell.id, short(code), record.who.actor))

    def _keep_cell(self, record: CellRecord, message: str, code: str, sent: float) -> None:
        self._cell = kept_cell(record, message, self.journal.bounds[1], sent, code)
        self.keep()

    async def _limit(self, record: CellRecord, seconds: float) -> None:
        cell = record.cell
        if await self.journal.over_within(record, seconds):
            return
        cell.timed_out = True
        await self._reach(record)
        if not await self.journal.over_within(record, GRACE):
            # It keeps the kernel until it ends or the kernel is restarted.
            cell.end(CellStatus.TIMEOUT)
            self.look(record)
            self.journal.wake()

    async def _continue(self, held: HeldRecord, *, is_busy: bool) -> None:
        """Continue with a kernel that was left behind, and with its cell if it runs one."""
        process = await self._adopt(held, is_busy=is_busy)
        if is_busy and process is not None:
            self._probe = process.probe()

    def _adopt_cell(self, kept: Mapping[str, Any] | None) -> bool:
        """Continue with the running cell of a kernel that was left behind; return whether there is one."""
        if kept is None:
            return False
        record = self._current = self._executing = adopted_cell(kept, self.epoch)
        cell, who, self._cell = record.cell, record.who, dict(kept)
        began = asyncio.get_running_loop().time() - max(0.0, time.time() - kept["began"])
        self._cell_journal.adopt(cell, who, began, self.journal.adopt(record, int(kept["begin"])))
        self._sent.add(str(kept["message"]), record)
        self._observing.began()
        self._origins.begin(self._origin, Origin("cell", cell.id, str(kept["code"]), who.actor))
        self._say(record, MISSED)
        if cell.timeout is not None:
            self._spawn(self._limit(record, max(0.0, kept["began"] + cell.timeout - time.time())))
        return True

    def _kept(self) -> Mapping[str, Any]:
        cell = self._cell
        return {"kept": self.journal.bounds[0], "cell": cell, "runs": [cell["id"]] if cell else []}

    def _ready(self, process: KernelProcess) -> None:
        self._questions.begin(process.language)
        if self._fronts:
            for state in ("starting", "idle"):
                self._fronts.state(state)

    def _end_cells(self, status: CellStatus) -> None:
        if self._front_cells:
            self._front_cells.end(status)
        self._end_current(status)

    async def _watch(self, process: KernelProcess) -> None:
        """Report the unrequested death of a process."""
        await process.ended.wait()
        victim = self._executing
        self._returncode = process.returncode
        report_death(self._notice, self.name, process)
        async with self._life:
            if self._process is process:
                await self._stop()
        if self._front_cells:
            self._front_cells.end(CellStatus.DIED)
        if victim and victim is self._executing:
            self._end_current(CellStatus.DIED)
        if self._fronts and self._fronts.connected and not process.replaced and not self.closed:
            self._fronts.state("restarting")
            await self._start_quietly()

    def _arrive(self, channel: str, message: Message) -> None:
        if self._fronts:
            self._fronts.heard(channel, message)
        self._hear(channel, message)

    def _hear(self, channel: str, message: Message) -> None:
        if channel == "shell" and (self._questions.hear(message) or self._probed(message)):
            return
        record = self._sent.of(message["parent_header"].get("msg_id", ""))
        if record is None or (channel == "stdin" and record.cell.over):
            return
        kind, content = message["msg_type"], message["content"]
        if channel == "shell" and kind == "execute_reply":
            if leaves(content) and self._process and record.cell.epoch == self.epoch:
                self._process.leaving = True
                self._say(record, LEFT)
            record.cell.replied(content)
            self.execution_count = record.cell.execution_count or self.execution_count
        elif kind == "status" and content.get("execution_state") == "idle":
            record.cell.idle()
            if not record.cell.settled and (record.cell.interrupted or record.cell.timed_out):
                asyncio.get_running_loop().call_later(REPLY, self._give_up, record)
        else:
            record.running |= kind != "status"  # `execute_input` is the first
            self.journal.wake()
            record.cell.raised |= kind == "error"
            for event in events_of(kind, content):
                self._show(record, event)
                if event.event == "input_request":
                    self._observing.asked(record.cell.id, event.head, self.pid)
            return
        if record.cell.settled and record is self._current:
            self._release(record)

    def _say(self, record: CellRecord, text: str) -> None:
        """Add a remark to the errors that a cell shows."""
        for event in events_of("stream", {"name": "stderr", "text": text}):
            self._show(record, event)

    def _show(self, record: CellRecord, event: Frame) -> None:
        self.journal.add(record, event)
        self._cell_journal.heard(record.cell, event)

    def _give_up(self, record: CellRecord) -> None:
        """End a cell whose kernel is idle but has not replied: an interrupt can hit the reply."""
        if record is self._current and not record.cell.settled:
            self._end_current(CellStatus.INTERRUPTED)

    def _probed(self, message: Message) -> bool:
        """Check whether a message shows that an adopted kernel has finished its cell."""
        if not self._probe or message["parent_header"].get("msg_id") != self._probe:
            return False
        self._probe = ""
        if self._executing is not None:
            asyncio.get_running_loop().call_later(REPLY, self._give_up_adopted, self._executing)
        return True

    def _give_up_adopted(self, record: CellRecord) -> None:
        """End a cell that ended while no supervisor was running."""
        if record is self._current and not record.cell.settled:
            self._say(record, UNHEARD)
            self._end_current(CellStatus.ERROR)

    def _end_current(self, status: CellStatus) -> None:
        if self._current:
            self._current.cell.end(status)
            self._release(self._current)

    def _release(self, record: CellRecord) -> None:
        for event in record.cell.unshown():
            self._show(record, event)
        if self._current is record:
            self._current = self._executing = self._cell = None
            if self._front_cells:
                self._front_cells.over()
            self.keep()
            self._origins.end(self._origin, record.cell.id)
        record.open_input = None
        self.look(record)
        if self._front_cells:
            self._front_cells.go_on()
        self.journal.wake()
