"""All programs of the session that callers started directly, by the ids their starters chose."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from holdfast.runtime.guest import adoption
from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.layout import Layout
from holdfast.runtime.guest.programs.program import Program, ProgramOrder
from holdfast.runtime.guest.pulse.deaths import Notice
from holdfast.runtime.guest.pulse.origins import Origins, processes
from holdfast.runtime.guest.pulse.process_lineage import Origin, short

MAX_RUNNING = 64
KEPT = 100
"""Limit of ended programs whose output can still be read; it takes at most KEPT_OUTPUT."""
KEPT_OUTPUT = 256 << 20


class NotStarted(Exception):
    """The program was not started. The message says why; `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Programs:
    """The programs, running and ended."""

    def __init__(self, layout: Layout, reaper: Reaper, origins: Origins, notice: Notice) -> None:
        self._folder = layout.state / "programs"
        self._reaper = reaper
        self._origins = origins
        self._notice = notice
        self._programs: dict[str, Program] = {}
        self._made = 0
        removal.discard(self._folder)

    def known(self, id_: str) -> Program | None:
        """Return the program of that id, if there is one."""
        return self._programs.get(id_)

    def all(self) -> list[Program]:
        """Return all known programs, the oldest first."""
        return list(self._programs.values())

    def start(self, order: ProgramOrder) -> Program:
        """Start a program.

        Raises:
            NotStarted: it was not started; nothing has changed.
        """
        if sum(not each.over for each in self._programs.values()) >= MAX_RUNNING:
            raise NotStarted("limit", f"cannot run: {MAX_RUNNING} programs are running already; end one")
        self._drop_old()
        self._made += 1
        folder, name = self._folder / f"{self._made:06d}", short(order.argv[0])
        try:
            with self._reaper.held():
                program = Program(order, folder)
                self._reaper.watch(program.pid, lambda: self._ended(program))
                self._began(program)
        except FileNotFoundError:
            there = Path(order.cwd).is_dir()
            what = (
                f"run {name}: no such program" if there else f"run {name} in {order.cwd}: no such directory"
            )
            raise NotStarted("invalid", f"cannot {what}") from None
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            from holdfast.runtime.guest.pulse import cgroup_limits  # few sessions need it

            raise NotStarted(
                "invalid", f"cannot run {name}: {cgroup_limits.explain_shortage(error)}"
            ) from None
        return program

    def _began(self, program: Program) -> None:
        order, text = program.order, short(" ".join(program.order.argv))
        self._programs[order.id] = program
        self._origins.own(program.pid, Origin("job", order.id, text, order.actor))
        self._keep(program)
        self._notice("run_started", id=order.id, argv=text, cwd=order.cwd, actor=order.actor, pid=program.pid)

    def keep(self) -> None:
        """Have the keeper hold which programs run, as after a restore."""
        for program in self._programs.values():
            if not program.over:
                self._keep(program)

    def _keep(self, program: Program) -> None:
        """Let another supervisor know of a program, which it has to end: the pipes are ours."""
        shown = f"{program.order.id[:12]} ({short(' '.join(program.order.argv))})"
        fields = {"start": adoption.start_of(program.pid), "shown": shown}
        self._reaper.keeper.hold(f"program:{program.order.id}", program.pid, fields)

    def signal(self, program: Program, number: int) -> None:
        """Send a signal to a program and to all that it started."""
        for pid in self._tree(program):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End them, for good."""
        for program in self._programs.values():
            if not program.over:
                self._reaper.forget(program.pid)
                self.signal(program, signal.SIGHUP)
            program.close()

    def _tree(self, program: Program) -> Iterator[int]:
        """Yield the processes of a program: its session, its descendants, and those that come from it."""
        family = {program.pid} if not program.over else set()
        table = processes()
        grown = True
        while grown:
            more = {each.pid for each in table if each.session == program.pid or each.parent in family}
            grown = not more <= family
            family |= more
        for each in table:
            origin = self._origins.known(each.pid)
            if each.pid in family or (origin is not None and origin.id == program.order.id):
                yield each.pid

    def _ended(self, program: Program) -> None:
        program.ended()
        self._reaper.keeper.drop(f"program:{program.order.id}")
        self._origins.disown(program.pid)
        self._notice(
            "run_ended",
            program.end,
            id=program.order.id,
            argv=short(" ".join(program.order.argv)),
            actor=program.order.actor,
            pid=program.pid,
            duration=round(program.duration or 0.0, 3),
            **({"killed_by": program.killed_by} if program.killed_by else {}),
        )
        self._origins.look_soon()

    def _drop_old(self) -> None:
        """Make room for one more."""
        over = [each for each in self._programs.values() if each.over]

        def size(program: Program) -> int:
            return sum(stream.log.end - stream.log.start for stream in program.streams.values())

        kept = sum(map(size, over))
        while over and (len(over) >= KEPT or kept > KEPT_OUTPUT):
            oldest = over.pop(0)
            kept -= size(oldest)
            oldest.remove()
            del self._programs[oldest.order.id]
