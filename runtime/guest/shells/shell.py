"""Drives one shell: its terminal, its recorded output, and the commands it runs.

All decisions about commands are made by `shell_fsm.ShellMachine`; this file carries them out.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from holdfast.runtime.guest import adoption
from holdfast.runtime.guest.identity.actor import Who
from holdfast.runtime.guest.jobs.keeper import HeldRecord
from holdfast.runtime.guest.layout import DEFAULT_COLUMNS, DEFAULT_ROWS
from holdfast.runtime.guest.process_surroundings import ProcessSurroundings
from holdfast.runtime.guest.records.command_journal import CommandJournal
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.records.terminal_recording import ShellRecording
from holdfast.runtime.guest.shells.driven_shell import END_OF_PASTE, DrivenShell
from holdfast.runtime.guest.shells.marks import MarkFilter, MarkKind, MarkReader, OutputPiece
from holdfast.runtime.guest.shells.process_progress import InterruptDelivery, at_work
from holdfast.runtime.guest.shells.shell_fsm import (
    Exec,
    KnownCommands,
    Phase,
    ShellAction,
    ShellActivity,
    ShellMachine,
)
from holdfast.runtime.guest.shells.shell_output import OutputGap, ScreenModes, T, digest, no_pause, visible
from holdfast.runtime.guest.shells.shell_process import ShellProcess
from holdfast.runtime.guest.shells.shell_program import ShellProgram
from holdfast.runtime.guest.shells.terminal import ProcessTerminal, TerminalSize, size_of
from holdfast.runtime.guest.shells.terminal_watch import ShellWatch

OUTPUT_CAPACITY = 256 << 20
READ_AGAIN = 1 << 20
KEPT_TEXT = 500
"""Bytes of a running command's text, and of its reason, that the next supervisor is given, to name it by."""
FAILED_FAST = (
    "`set -e` ended the shell when a command failed: its variables, its directory and its jobs are gone; "
    "`(set -e; …)` ends only itself"
)
_SIGNALS = {ShellAction.TERMINATE: signal.SIGTERM, ShellAction.KILL: signal.SIGKILL}

logger = logging.getLogger(__name__)


class Shell:
    """One persistent shell. When it ends, a new one follows immediately in the same stream."""

    def __init__(
        self,
        name: str,
        surroundings: ProcessSurroundings,
        command_journal: CommandJournal,
        program: ShellProgram,
        held: HeldRecord | None = None,
    ) -> None:
        """Prepare a shell; `held` is the state and process left by a previous supervisor."""
        self.name = name
        self._held = held
        layout, account, reaper, _, _ = surroundings
        self._keeper = reaper.keeper
        self.program = program
        self.command_journal = command_journal
        self.size = size_of(held.descriptor) if held else TerminalSize(DEFAULT_ROWS, DEFAULT_COLUMNS)
        self._files = DrivenShell(layout.shell(name), layout, account, program)
        if held is not None:
            self._files.adopt(held.fields)
        self.kept = self._files.state
        self._process = ShellProcess(name, self._files, surroundings, self)
        self.stream = self._files.nonce
        """Id of the stream that offsets refer to; another supervisor's differs."""
        self._loop = asyncio.get_running_loop()
        self._machine = ShellMachine()
        self.commands = KnownCommands()
        self._serial = int(held.fields["serial"]) if held else 0
        self._timer: asyncio.TimerHandle | None = None
        self._held_terminal: ProcessTerminal | None = None
        """The terminal whose descriptor the keeper has."""
        self._started = 0.0
        self._seen = 0
        """The offset after the last mark."""
        self._delivery: InterruptDelivery | None = None
        if held is None:
            self._files.lay_out()
        kept = int(held.fields["kept"]) if held else None
        self.log = StreamLog(layout.shell(name).output, OUTPUT_CAPACITY, kept=kept)
        self.recording = ShellRecording(
            layout.shell(name).recording, self.size, kept=None if held is None else self.log.end
        )
        self.screen_modes = ScreenModes()
        self.prompts = 0
        self.touched = 0.0
        """The loop's time at which something was last typed or interrupted."""
        self._marks = MarkReader(self._files.nonce, self.log.end)
        self._filter = MarkFilter(self._files.nonce)
        command_journal.output_digest = partial(digest, self.log, self._filter)
        self.watching = ShellWatch(self)

    @property
    def terminal(self) -> ProcessTerminal | None:
        """The terminal, while a shell runs."""
        return self._process.terminal

    @property
    def pid(self) -> int | None:
        """The shell's process, if one runs."""
        return self._process.pid

    @property
    def trouble(self) -> str:
        """Why no shell runs; empty if one is just being started."""
        return self._process.trouble

    @property
    def closing(self) -> bool:
        """True once `close` was called: no shell follows this one."""
        return self._process.closing

    @property
    def state(self) -> ShellActivity:
        """One of prompt, busy and exited, as clients know it."""
        if self.terminal is None:
            return ShellActivity.EXITED
        free = self._machine.state is ShellActivity.PROMPT and not self._machine.current
        return ShellActivity.PROMPT if free else ShellActivity.BUSY

    @property
    def current(self) -> Exec | None:
        """The command that holds the shell."""
        return self._machine.current

    def start(self) -> None:
        """Start a shell, or continue with the existing one."""
        held, self._held = self._held, None
        if held is None:
            self._process.start()
        else:
            self._adopt(held)

    def _adopt(self, held: HeldRecord) -> None:
        now, fields = self._loop.time(), held.fields
        terminal = ProcessTerminal.adopted(held.pid, held.descriptor)
        current = None
        if (given := fields.get("exec")) is not None:
            current = Exec(given["id"], given["serial"], given["timeout"], Phase(given["phase"]))
            current.start_offset, current.incomplete = given["offset"], given["incomplete"]
            current.began = now - max(0.0, time.time() - given["began"])
            text = str(given["text"]).encode()
            if current.phase is Phase.OFFERED:  # it may have to be offered again
                text = self._files.offered_text() or text
            self.commands.add(current, text)
            self.command_journal.adopt(current, text, Who(*given["who"]))
        self._machine.adopt(ShellActivity(fields["state"]), current, now)
        # The last marks may have been read, and their meaning not been recorded.
        self._seen = begin = min(max(self.log.start, int(fields["seen"])), self.log.end)
        self._marks = MarkReader(self._files.nonce, begin, int(fields["number"]))
        while data := self.log.read(begin, READ_AGAIN):
            begin += len(data)
            self._follow(data)
        self._process.adopt(terminal, held.status)
        self._do([])

    def keep(self, *, moved: bool = False) -> None:
        """Store with the keeper the facts a new supervisor needs to continue with this shell.

        `moved`: the process was restored, and has another start time.
        """
        key = f"shell:{self.name}"
        if (terminal := self.terminal) is None:
            self._keeper.drop(key)
            return
        current, who, given = self._machine.current, self.command_journal.who, None
        if current and who and current.phase in (Phase.OFFERED, Phase.RUNNING):
            text = (self.commands.text_of(current) or b"")[:KEPT_TEXT].decode("utf-8", "replace")
            given = {
                "id": current.id,
                "serial": current.serial,
                "timeout": current.timeout,
                "phase": current.phase,
                "offset": current.start_offset,
                "incomplete": current.incomplete,
                "began": round(time.time() - (self._loop.time() - current.began), 3),
                "text": text,
                "who": [who.actor, who.reason and who.reason[:KEPT_TEXT], who.key, who.request],
            }
        new = self._held_terminal is not terminal
        if new or moved:
            self._held_terminal, self._started = terminal, adoption.start_of(terminal.pid)
        fields = {
            **self._files.kept(),
            "start": self._started,
            "kept": self.log.start,
            "seen": self._seen,
            "number": self._marks.number,
            "serial": self._serial,
            "state": self._machine.state,
            "exec": given,
            "runs": [given["id"]] if given else [],
        }
        self._keeper.hold(key, terminal.pid, fields, terminal.fd if new else -1)

    def stop(self) -> None:
        """Hang up without a successor."""
        self._process.stop()

    async def close(self) -> None:
        """Hang up without a successor, and wait until the shell has ended.

        Its command ends with it, and readers get to the end of the output.
        """
        await self._process.close()

    def submit(self, id_: str, command: bytes, timeout: float | None, who: Who) -> Exec:
        """Begin a command.

        Raises:
            shell_fsm.Busy: another command has the shell; nothing has changed.
        """
        self._serial += 1
        request = Exec(id_, self._serial, timeout)
        actions = self._machine.submit(request, self._loop.time())
        self.commands.add(request, command)
        self.command_journal.given(request, command, who)
        self._do(actions)
        return request

    async def write(self, data: bytes) -> None:
        """Type data into the terminal."""
        if self.terminal:
            self.touched = self._loop.time()
            self.watching.typed(data)
            await self.terminal.write(data)

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the terminal."""
        self.size = size
        self.recording.resize(size)
        if self.terminal:
            self.terminal.resize(size)

    def interrupt(self) -> None:
        """Act as Ctrl-C does; for a running command, drop the lines that have not run yet."""
        if self.terminal is None:
            return
        self.touched = self._loop.time()
        self.watching.typed(b"")
        current = self._machine.current
        if current and current.phase is not Phase.WAITING:
            self._files.abort()
            self._pursue(current, self.terminal)
        else:
            self.terminal.interrupt()

    def _pursue(self, current: Exec, terminal: ProcessTerminal) -> None:
        if self._delivery:
            self._delivery.end()
        self._delivery = InterruptDelivery(
            self._loop,
            terminal,
            lambda: self._machine.current is current and self.terminal is terminal,
            lambda: current.phase is Phase.RUNNING,
        )
        self._delivery.begin()

    def signal(self, number: int) -> None:
        """Send a signal to the foreground process group, never to the shell itself."""
        if self.terminal:
            self.terminal.signal_foreground(number)

    def clock(self) -> float:
        """Return the time by which commands are measured, in seconds."""
        return self._loop.time()

    def output(
        self, start: int, until: Callable[[], int | None], pause: Callable[[int], T | None] = no_pause
    ) -> AsyncIterator[OutputPiece | OutputGap | T]:
        """Yield the output from `start` on, without marks. See `shell_output.visible`."""

        def end() -> int | None:
            return self.log.end if self._process.over else until()

        return visible(self.log, self._filter, start, end, pause)

    def hold(self, *, hold: bool) -> None:
        """Make programs that write to the terminal wait, or let them continue."""
        if self.terminal:
            self.terminal.hold_output(hold=hold)

    def drain(self) -> None:
        """Record the terminal's present content."""
        self._process.drain()

    def take(self, data: bytes) -> None:
        """Record output of the terminal, and follow the marks in it."""
        # Readers only run after this: they never see output after the end of a command.
        self.screen_modes.feed(data, self.log.end)
        self.log.append(data)
        self.recording.output(self.log.end)
        if self.log.start:
            self.recording.trim(self.log.start)
        self._follow(data)

    def _follow(self, data: bytes) -> None:
        for mark in self._marks.feed(data):
            self._seen = mark.end
            self.prompts += mark.kind is MarkKind.READY
            now = self._loop.time()
            self.command_journal.mark(mark, now, self._files.typed)
            current = self._machine.current
            actions = self._machine.mark(mark, now)
            if current and current.over:
                current.cwd = self.kept.cwd()
                self._end_interrupt()
            self._do(actions)

    def _end_interrupt(self) -> None:
        """End an interruption in progress: it was for the command that is over."""
        if self._delivery:
            self._delivery.end()
            self._delivery = None
            self._files.resume()

    def _do(self, actions: list[ShellAction]) -> None:
        """Carry out the machine's decisions, and wake the waiters for its state."""
        for action in actions:
            self._carry_out(action)
        self.watching.follow(self._machine.state)
        self.command_journal.look()
        if self._machine.state is ShellActivity.PROMPT:
            self._process.works()
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._machine.wake_at is not None:
            self._timer = self._loop.call_at(self._machine.wake_at, self._tick)
        self.keep()
        self.log.wake()

    def _carry_out(self, action: ShellAction) -> None:
        current, terminal = self._machine.current, self.terminal
        if action is ShellAction.OFFER and current:
            self._offer(current)
            return
        if action is ShellAction.WITHDRAW:
            self._machine.withdrawn(gone=not self._files.withdraw())
        if terminal is None:
            return
        logger.info("shell %s: %s, command %s", self.name, action, current and current.id)
        match action:
            case ShellAction.NUDGE | ShellAction.WITHDRAW:
                terminal.restart_output()
                # If it has the command, or has not read the first key, these would be left to the command.
                if action is ShellAction.NUDGE and self._files.offers() and terminal.takes_keys():
                    terminal.write_now(END_OF_PASTE + self._files.key)
            case ShellAction.CANCEL_INPUT:
                terminal.interrupt()
            case ShellAction.INTERRUPT:
                self.interrupt()
            case ShellAction.TERMINATE | ShellAction.KILL:
                terminal.signal_foreground(_SIGNALS[action])
            case ShellAction.KILL_SHELL:
                self._process.kill()

    def _offer(self, current: Exec) -> None:
        self.command_journal.offered()
        try:
            self._files.offer(current.serial, self.commands.text_of(current) or b"")
        except OSError as error:
            self._machine.refuse(f"its text cannot be left for the shell ({error.strerror})")
            return
        if self.terminal:
            self.terminal.write_now(self._files.key)

    def _tick(self) -> None:
        self._do(self._machine.tick(self._loop.time(), self._at_work))

    def _at_work(self) -> bool:
        return self.terminal is not None and at_work(self.terminal.pid)

    def holder(self) -> str | None:
        """Return the actor of the running command, if any."""
        return self.command_journal.actor

    def process_started(self) -> None:
        """Follow a shell that is being started."""
        self.watching.follow(ShellActivity.STARTING)
        self.keep()

    def terminal_closed(self) -> None:
        """Follow a shell that has lost its terminal."""
        self.watching.follow(ShellActivity.EXITED)
        self.keep()

    def process_over(self) -> None:
        """Wake the waiters for the end of the output."""
        self.log.wake()

    def process_ended(self, code: int) -> None:
        """End the command that ran in it; `code` is negative for a signal."""
        now = self._loop.time()
        exit_code, number = (code, None) if code >= 0 else (None, -code)
        if (current := self._machine.current) and self._files.failed_fast():
            current.message = FAILED_FAST
        self.command_journal.shell_ended(self.log.end, now, exit_code=exit_code, signal=number)
        self._do(self._machine.exited(self.log.end, now, exit_code=exit_code, signal=number))
