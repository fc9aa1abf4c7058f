"""The life of a shell as its supervisor sees it: the order of commands, and their ends.

No process, file or clock here: marks, exits and the time come in, actions come out. Every decision about a
command (start, end, refusal, escalation after a timeout) is made in this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest.shells.marks import Mark, MarkKind

PROMPT_PATIENCE = 10.0
"""Seconds to wait for the prompt of a shell that starts, or that still works on its last prompt."""
BUSY_PATIENCE = 0.5
"""Seconds to wait for the end of a person's command: it can be ending, or take almost no time."""
OFFER_PATIENCE = 1.0
"""Seconds until the shell is asked again to take a command: a half-typed key can have eaten the first."""
OFFERS = 5
EXTENSIONS = 9
"""Times a wait is extended for a shell that is at work: on a busy machine it can be slow."""
CANCEL_PATIENCE = 0.25
"""Seconds until an unfinished command is cancelled again: readline misses a signal just before it waits."""
CANCELS = 20
GRACE = 2.0
"""Seconds between SIGINT, SIGTERM and SIGKILL."""
LAST_RESORT = 10.0
"""Seconds after SIGINT when the shell itself is killed: nothing in it could be interrupted."""
KEPT_COMMANDS = 1000


class ShellActivity(StrEnum):
    """The activity of the shell."""

    STARTING = "starting"
    PROMPT = "prompt"
    SETTLING = "settling"
    BUSY = "busy"
    EXITED = "exited"


class Phase(StrEnum):
    """The progress of a command."""

    WAITING = "waiting"
    OFFERED = "offered"
    RUNNING = "running"
    FINISHED = "finished"
    REFUSED = "refused"


class ShellAction(StrEnum):
    """Instructions to the driver, all about the current command."""

    OFFER = "offer"
    NUDGE = "nudge"
    WITHDRAW = "withdraw"
    CANCEL_INPUT = "cancel input"
    INTERRUPT = "interrupt"
    TERMINATE = "terminate"
    KILL = "kill"
    KILL_SHELL = "kill shell"


class ShellBusy(Exception):
    """A different command has the shell."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


@dataclass(slots=True)
class Exec:
    """One command, from its request to its result. Offsets count in the shell's stream."""

    id: str
    serial: int
    timeout: float | None = None
    phase: Phase = Phase.WAITING
    start_offset: int = 0
    end_offset: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    shell_exited: bool = False
    incomplete: bool = False
    began: float = 0.0
    duration: float = 0.0
    refusal: str = ""
    """Reason of its refusal, unless the shell is busy."""
    cwd: str | None = None
    """Directory of the shell when it ended."""
    message: str | None = None
    """Explanation of its end; None until it has been looked for."""

    @property
    def over(self) -> bool:
        """True once its outcome is final."""
        return self.phase in (Phase.FINISHED, Phase.REFUSED)


@dataclass(slots=True)
class ShellMachine:
    """Follows one shell and the single command it can be running for us."""

    state: ShellActivity = ShellActivity.STARTING
    current: Exec | None = None
    wake_at: float | None = None
    """Time at which to call `tick`."""
    _offers: int = 0
    _extensions: int = 0
    _cancels: int = 0
    _steps: Iterator[tuple[float, ShellAction]] | None = field(default=None, repr=False)
    _next: ShellAction | None = None

    def submit(self, request: Exec, now: float) -> list[ShellAction]:
        """Begin a command.

        Raises:
            Busy: another command has the shell; nothing has changed.
        """
        if self.current:
            raise ShellBusy(self.current.id)
        self.current = request
        self._extensions = 0
        if self.state is ShellActivity.PROMPT:
            return self._offer(now)
        self.wake_at = now + (BUSY_PATIENCE if self.state is ShellActivity.BUSY else PROMPT_PATIENCE)
        # The output that the prompt is a part of may have been stopped.
        return [ShellAction.NUDGE] if self.state is ShellActivity.SETTLING else []

    def mark(self, mark: Mark, now: float) -> list[ShellAction]:
        """Process the next mark of the stream."""
        if mark.kind in (MarkKind.PROMPT, MarkKind.READY) and (lost := self._running()):
            # A prompt ends every command. Its marks may be lost: Ctrl-C makes the terminal drop output.
            self._finish(lost, now, end=mark.start, exit_code=mark.status)
        match mark.kind:
            case MarkKind.PROMPT:
                self.state = ShellActivity.SETTLING
            case MarkKind.READY:
                self.state = ShellActivity.PROMPT
                if self.current and self.current.phase is Phase.WAITING:
                    return self._offer(now)
            case MarkKind.ACCEPTED:
                return self._accepted(mark, now)
            case MarkKind.MORE:
                return self._more(mark, now)
            case MarkKind.EXECUTED | MarkKind.DONE:
                self.state = ShellActivity.SETTLING
                current = self._running() or self._taken(mark, now)
                if current and (mark.kind is MarkKind.DONE or mark.serial == current.serial):
                    self._finish(current, now, end=mark.start, exit_code=mark.status)
        return []

    def adopt(self, state: ShellActivity, current: Exec | None, now: float) -> None:
        """Continue with the shell, and the command that had it, of a previous supervisor."""
        self.state, self.current = state, current
        if current is None:
            self.wake_at = None
        elif current.phase is Phase.OFFERED:
            self.wake_at = now + OFFER_PATIENCE
        elif current.timeout is not None:
            self.wake_at = max(now, current.began + current.timeout)

    def withdrawn(self, *, gone: bool) -> None:
        """Process the result of WITHDRAW. If the offer has been taken, the shell has it; its mark is on the
        way."""
        current = self.current
        if current is None or current.phase is not Phase.OFFERED:
            return
        if not gone:
            if self.state is ShellActivity.PROMPT:  # the shell does not take it
                self._refuse(current)
            else:
                current.phase = Phase.WAITING
        elif self.state is ShellActivity.STARTING:  # the shell died with it
            current.shell_exited = True
            self._finish(current, current.began, end=current.start_offset, exit_code=None)

    def exited(self, end: int, now: float, *, exit_code: int | None, signal: int | None) -> list[ShellAction]:
        """Process the end of the shell's process, which a new one follows; its stream ended at `end`."""
        self.state = ShellActivity.STARTING
        current = self.current
        if current is None:
            return []
        if current.phase is Phase.OFFERED:
            self.wake_at = now + PROMPT_PATIENCE
            current.start_offset, current.began, current.signal = end, now, signal
            return [ShellAction.WITHDRAW]
        if current.phase is Phase.RUNNING:
            current.shell_exited = True
            current.signal = signal
            self._finish(current, now, end=end, exit_code=exit_code)
        return []

    def tick(self, now: float, at_work: Callable[[], bool] = lambda: False) -> list[ShellAction]:
        """Do the work that is due. `at_work` returns whether an unresponsive shell is busy."""
        current = self.current
        if current is None or self.wake_at is None or now < self.wake_at:
            return []
        if current.phase is Phase.WAITING:
            if self.state is ShellActivity.BUSY or not self._extended(at_work):
                self._refuse(current)
            else:
                self.wake_at = now + PROMPT_PATIENCE
            return []
        if current.phase is Phase.OFFERED:
            self.wake_at = now + OFFER_PATIENCE
            self._offers += 1
            if self._offers < OFFERS or self._extended(at_work):
                return [ShellAction.NUDGE]
            return [ShellAction.WITHDRAW]
        if current.incomplete and self._cancels < CANCELS:
            return self._cancel(now)
        current.timed_out = True
        return self._escalate(now)

    def refuse(self, reason: str) -> None:
        """Refuse the current command, which could not even be offered."""
        if self.current:
            self.current.refusal = reason
            self._refuse(self.current)

    def _extended(self, at_work: Callable[[], bool]) -> bool:
        self._extensions += 1
        return self._extensions <= EXTENSIONS and at_work()

    def _offer(self, now: float) -> list[ShellAction]:
        assert self.current
        self.current.phase = Phase.OFFERED
        self.wake_at = now + OFFER_PATIENCE
        self._offers = 0
        return [ShellAction.OFFER]

    def _accepted(self, mark: Mark, now: float) -> list[ShellAction]:
        self.state = ShellActivity.BUSY
        current = self.current
        if current is None or current.phase is not Phase.OFFERED:
            return []
        if mark.serial != current.serial:  # a person was faster
            self.wake_at = now + BUSY_PATIENCE
            return [ShellAction.WITHDRAW]
        current.phase = Phase.RUNNING
        current.start_offset = mark.end
        current.began = now
        self.wake_at = None if current.timeout is None else now + current.timeout
        self._steps = None
        return []

    def _more(self, mark: Mark, now: float) -> list[ShellAction]:
        self.state = ShellActivity.BUSY
        current = self._running()
        if current is None or current.incomplete:
            return []
        current.incomplete = True
        current.end_offset = mark.start
        self._cancels = 0
        return self._cancel(now)

    def _cancel(self, now: float) -> list[ShellAction]:
        self._cancels += 1
        self.wake_at = now + CANCEL_PATIENCE
        return [ShellAction.CANCEL_INPUT]

    def _escalate(self, now: float) -> list[ShellAction]:
        if self._steps is None:
            self._steps = _escalation(now)
        action = self._next or ShellAction.INTERRUPT
        self.wake_at, self._next = next(self._steps)
        return [action]

    def _taken(self, mark: Mark, now: float) -> Exec | None:
        """Return the offered command if this mark shows that it ran: the mark of its start was lost."""
        current = self.current
        if current is None or current.phase is not Phase.OFFERED or mark.serial != current.serial:
            return None
        current.start_offset, current.began = mark.start, now
        return current

    def _running(self) -> Exec | None:
        return self.current if self.current and self.current.phase is Phase.RUNNING else None

    def _finish(self, current: Exec, now: float, *, end: int, exit_code: int | None) -> None:
        current.phase = Phase.FINISHED
        current.exit_code = 2 if current.incomplete and not current.shell_exited else exit_code
        if current.end_offset is None:
            current.end_offset = end
        current.duration = now - current.began
        self._release()

    def _refuse(self, current: Exec) -> None:
        current.phase = Phase.REFUSED
        self._release()

    def _release(self) -> None:
        self.current = self.wake_at = self._steps = self._next = None


def _escalation(begin: float) -> Iterator[tuple[float, ShellAction]]:
    """Return the signals after the first SIGINT, with their times. A loop can start children as fast as
    they die."""
    yield begin + GRACE, ShellAction.TERMINATE
    at = begin + 2 * GRACE
    while at < begin + LAST_RESORT:
        yield at, ShellAction.KILL
        at += 0.5
        yield at, ShellAction.INTERRUPT
        at += 0.5
    while True:
        yield at, ShellAction.KILL_SHELL
        at += GRACE


class KnownCommands:
    """Commands by id; the oldest are forgotten."""

    def __init__(self) -> None:
        self._commands: dict[str, Exec] = {}
        self._newest: tuple[Exec, bytes] | None = None

    def add(self, command: Exec, text: bytes) -> None:
        """Remember a command that has been submitted."""
        self._newest = command, text
        self._commands[command.id] = command
        if len(self._commands) > KEPT_COMMANDS:
            # At most one command is not over, and it is the newest, so the oldest is always over.
            del self._commands[next(iter(self._commands))]

    def find(self, id_: str) -> Exec | None:
        """Return the command of that id, if it is known."""
        return self._commands.get(id_)

    def text_of(self, command: Exec) -> bytes | None:
        """Return the text of a command; only the newest text is kept."""
        return self._newest[1] if self._newest and self._newest[0] is command else None

    def forget(self, id_: str) -> None:
        """Forget a refused command: its id can be used again."""
        self._commands.pop(id_, None)
