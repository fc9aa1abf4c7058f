"""The process of a kernel, through deaths and restarts: started, adopted, replaced, ended.

It knows that a cell can have the process, and nothing else of cells.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.kernels.guest.jupyter_library import KernelFailure, load_library
from holdfast.kernels.guest.messages import CellStatus
from holdfast.kernels.guest.process import KernelProcess, Message
from holdfast.runtime.guest import adoption
from holdfast.runtime.guest.jobs.keeper import HeldRecord
from holdfast.runtime.guest.process_surroundings import ProcessSurroundings
from holdfast.runtime.guest.pulse.deaths import Notice, ProcessEnd
from holdfast.runtime.guest.pulse.process_lineage import Origin

LEAVE = 5.0
"""Seconds for a process to end that has said it will."""

logger = logging.getLogger(__name__)


class KernelLife:
    """A kernel's process by name. Its epoch grows with every process, so lost state never goes unnoticed."""

    def __init__(
        self,
        name: str,
        spec: str,
        workspace: Path,
        surroundings: ProcessSurroundings,
        python: str | None,
        epoch: int,
    ) -> None:
        layout, account, reaper, self._origins, self._notice = surroundings
        self._keeper = reaper.keeper
        self.name = name
        self._origin = Origin("kernel", name)
        self.spec = spec
        self.epoch = epoch
        self.language = ""
        """The language that its process reports, in lower case; unknown before one has started."""
        self.closed = False
        """True once it was ended finally."""
        self.execution_count = 0
        self._workspace = workspace
        self._new_process = partial(
            KernelProcess,
            folder=layout.kernel(name) / "run",
            account=account,
            workspace=workspace,
            reaper=reaper,
            marks={"HOLDFAST_KERNEL": name},
            python=python,
        )
        self._process: KernelProcess | None = None
        self._adopting: KernelProcess | None = None
        self._coming: KernelProcess | None = None
        """The process that was started and has not answered yet."""
        self._starting = False
        self._returncode: int | None = None
        self._life = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """The kernel's process, if one runs."""
        return self._process.pid if self._process else None

    @property
    def own_pids(self) -> set[int]:
        """The kernel's process, also one that has not answered yet."""
        own = (self._process, self._adopting, self._coming)
        pids = [each.launched_pid for each in own if each is not None]
        return {pid for pid in pids if pid is not None}

    @property
    def cwd(self) -> str:
        """The directory in which its processes start."""
        return str(self._workspace)

    @property
    def info(self) -> bytes:
        """The process's answer about itself, as JSON; empty until it has answered."""
        return self._process.info if self._process else b""

    @property
    def state(self) -> str:
        """One of starting, idle, busy and dead."""
        if self._starting:
            return "starting"
        if self._process is None or self._process.ended.is_set():
            return "dead"
        return "busy" if self.taken else "idle"

    @property
    def taken(self) -> bool:
        """True if a cell holds the kernel."""
        raise NotImplementedError

    def _arrive(self, channel: str, message: Message) -> None:
        """Take a message of the process."""
        raise NotImplementedError

    def _ready(self, process: KernelProcess) -> None:
        """Note that a process is there, new or adopted."""
        raise NotImplementedError

    def _end_cells(self, status: CellStatus) -> None:
        """End the running cell and all waiting cells."""
        raise NotImplementedError

    def _kept(self) -> Mapping[str, Any]:
        """Return the facts of its cells that another supervisor needs."""
        raise NotImplementedError

    async def _watch(self, process: KernelProcess) -> None:
        """Wait for the end of a process, and deal with it."""
        raise NotImplementedError

    async def restart(self, spec: str | None = None) -> None:
        """Replace the process; the running cell ends as restarted.

        Raises:
            KernelFailure: the new process could not be started.
        """
        async with self._life:
            await self._end_process(CellStatus.RESTARTED)
            self.spec = spec or self.spec
            await self._start()

    async def ensure(self) -> None:
        """Start the process if there is none.

        Raises:
            KernelFailure: it could not be started.
        """
        async with self._life:
            if self._process and self._process.leaving:
                with suppress(TimeoutError):  # it ends on its own, which is how it is reported
                    await asyncio.wait_for(self._process.ended.wait(), LEAVE)
            if self._process and (self._process.ended.is_set() or self._process.leaving):
                await self._stop()
            if self.closed:
                raise KernelFailure(f"cannot start kernel {self.name}: it was closed")
            if self._process is None:
                await self._start()

    async def close(self) -> None:
        """Close the kernel; the running cell dies, and waiting cells are refused."""
        self.closed = True
        async with self._life:
            await self._end_process(CellStatus.DIED)

    def stop(self) -> None:
        """End the process without a successor."""
        for process in (self._process, self._adopting):
            if process:
                process.kill()

    def pass_on(self, channel: str, parts: Sequence[bytes]) -> bool:
        """Send the process a message of a front end; return False if there is none."""
        if self._process is None or self._process.ended.is_set():
            return False
        self._process.pass_on(channel, parts)
        return True

    async def _adopt(self, held: HeldRecord, *, is_busy: bool) -> KernelProcess | None:
        """Continue with a process that was left behind; an unreachable one is ended and replaced."""
        process = self._adopting = self._new_process(self.spec)
        process.epoch, process.pid = self.epoch, held.pid
        async with self._life:
            try:
                await load_library()
                await process.adopt(held.pid, held.fields, self._arrive, busy=is_busy)
            except KernelFailure as error:
                logger.error("%s", error)
                self._end_cells(CellStatus.DIED)
                process.kill()
                await process.close()
                self._notice("kernel_died", kernel=self.name, pid=held.pid, epoch=self.epoch, cause="unknown")
                self._keeper.drop(f"kernel:{self.name}")
                self._spawn(self._start_quietly())
                return None
            finally:
                self._starting, self._adopting = False, None
            self.execution_count = int(held.fields["count"])
            self._take_up(process)
        return process

    def _take_up(self, process: KernelProcess) -> None:
        self._process = process
        self.language = process.language
        if process.pid:
            self._origins.own(process.pid, self._origin)
        self.keep()
        self._ready(process)
        self._spawn(self._watch(process))

    def keep(self) -> None:
        """Store with the keeper the facts that a new supervisor needs to continue with this kernel."""
        process = self._process
        if process is None or process.pid is None or process.ended.is_set():
            return
        fields = {
            **process.kept(),
            "spec": self.spec,
            "epoch": self.epoch,
            "count": self.execution_count,
            "cwd": self.cwd,
            "start": adoption.start_of(process.pid),
            **self._kept(),
        }
        self._keeper.hold(f"kernel:{self.name}", process.pid, fields)

    async def _start_quietly(self) -> None:
        try:
            await self.ensure()
        except KernelFailure as error:
            logger.error("%s", error)

    async def _start(self) -> None:
        self._starting = True
        process = self._coming = self._new_process(self.spec)
        try:
            await load_library()
            await process.start(self._arrive)
        except KernelFailure:
            await process.close()
            raise
        finally:
            self._starting, self._coming = False, None
        self.epoch = process.epoch = self.epoch + 1
        self.execution_count = 0
        self._take_up(process)

    async def _end_process(self, status: CellStatus) -> None:
        """End the running cell with this status, and its process as requested."""
        self._end_cells(status)
        if self._process and not self._process.ended.is_set():
            self._process.replaced = True
        await self._stop()

    async def _stop(self) -> None:
        """End the process and read its last messages, which come before the report of its end."""
        if process := self._process:
            process.kill()
            await process.ended.wait()
            self._keeper.drop(f"kernel:{self.name}")
            if process.pid:
                self._origins.disown(process.pid)
            await process.close()
            self._process = None

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def report_death(notice: Notice, name: str, process: KernelProcess) -> None:
    """Record that a process ended, and whether that was requested."""
    asked = {"cause": "restarted"} if process.replaced else {}
    notice(
        "kernel_died",
        ProcessEnd.of_returncode(process.returncode or 0),
        kernel=name,
        pid=process.pid,
        epoch=process.epoch,
        **asked,
    )
