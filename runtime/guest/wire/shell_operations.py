"""The operations on shells: open, close, run, join, read, type, watch. Thin: the shell decides.

Owns when it is worthwhile to wait for a taken shell: as long as the caller wants, and briefly for a command
that is already ending; and the explanation of a result, where its exit code alone would leave the caller to
guess.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.layout import DEFAULT_COLUMNS, DEFAULT_ROWS
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest.records.command_journal import outcome
from holdfast.runtime.guest.records.keyed import KeyedRequest
from holdfast.runtime.guest.shells import syntax
from holdfast.runtime.guest.shells.keyboard import echo_at
from holdfast.runtime.guest.shells.marks import MAX_MARK, OutputPiece
from holdfast.runtime.guest.shells.process_progress import replaced_by
from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.shell_fsm import Exec, Phase, ShellBusy
from holdfast.runtime.guest.shells.shell_output import OutputGap
from holdfast.runtime.guest.shells.shell_program import ShellKind
from holdfast.runtime.guest.shells.terminal import TerminalSize, command_of
from holdfast.runtime.guest.shells.typed import Echo, line_refusal
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

MAX_SIDE = 4096
SIGNALS = ("INT", "TERM", "KILL", "QUIT", "HUP", "TSTP", "CONT", "USR1", "USR2")
ENDING = 2.0
"""Seconds a command can take to end after an interrupt or an answer, before it counts as still running."""
LOOKED_AT = 64 << 10
"""Bytes of the newest output in which bash can have complained."""
COMPLAINT = b"syntax error"
STARVED = b": Resource temporarily unavailable"
"""The message of a shell that cannot fork."""
BAD_USAGE = 2
"""Exit code of bash after a syntax error, and of many others for other reasons."""
SECONDS = 2.0
"""Delay allowed for an explanation, which takes milliseconds unless bash has been replaced."""
_HOW = "close its quotes, blocks or here-document"


@dataclass(frozen=True, slots=True)
class CommandWait:
    """A command's wait, to be reported at an offset of its output."""

    state: State
    offset: int


async def open_(guest: Guest, call: ClientCall) -> None:
    """Open a shell, or find the existing one with that name: repeated requests are harmless."""
    size = size_of(call, TerminalSize(DEFAULT_ROWS, DEFAULT_COLUMNS))
    shell, new = guest.opened.open(call.text("shell"), size, str(call.actor()))
    await call.finish("opened", new=new, shell=guest.opened.described(shell))


async def close(guest: Guest, call: ClientCall) -> None:
    """End a shell."""
    force = call.frame.head.get("force") is True
    await guest.opened.close(call.text("shell"), str(call.actor()), force=force)
    await call.finish("ok")


async def run(guest: Guest, call: ClientCall) -> None:
    """Run a command, or join it if its id is known."""
    shell = guest.shell(call.target("shell"))
    id_, text = call.id(), call.frame.payload
    known = guest.keyed.check(id_, "exec", shell.name, text) if call.key() is not None else None
    command = shell.commands.find(id_)
    if command is None and known is not None:
        await _recall(call, shell, known)
        return
    if command is None:
        command = await _begin(guest, shell, call)
    await _follow(guest, call, shell, command)


async def wait(guest: Guest, call: ClientCall) -> None:
    """Join a command."""
    shell = guest.shell(call.target("shell"))
    command = shell.commands.find(call.id())
    if command is None:
        raise RequestRefused(
            "unknown_exec", f"cannot wait for {call.id()}: there is no such command, or it is too old"
        )
    await _follow(guest, call, shell, command)


async def read(guest: Guest, call: ClientCall) -> None:
    """Read recorded output."""
    shell = guest.shell(call.target("shell"))
    offset = call.integer("offset", 0, low=-(2**53))
    follow = call.frame.head.get("follow") is True
    start = shell.log.clamp(offset) if offset < 0 else offset
    end = None if follow else min(call.integer("end", shell.log.end, low=0), shell.log.end)
    await pour(call, shell, start, lambda: end)
    await call.finish("eof", offset=end)


async def send(guest: Guest, call: ClientCall) -> None:
    """Type bytes into the terminal; return the running command, and the offset of its further output."""
    actor, shell = str(call.actor()), guest.shell(call.target("shell"))
    await guest.shell_access(shell.name).admitted(actor, "type", call.seconds("lease_wait"))
    keyboard = guest.keyboards[shell.name]
    if keyboard.excess(call.frame.payload) or keyboard.excess_at_prompt(call.frame.payload):
        # Between a command and the prompt the terminal briefly reads lines, or keys already.
        await prompted(shell)
    if excess := keyboard.excess(call.frame.payload):
        raise RequestRefused("line_too_long", line_refusal(excess))
    offset, current = shell.log.end, shell.current
    guest.notifications.uses(actor, shell.name)
    await keyboard.type(actor, call.frame.payload)
    await call.finish("ok", offset=offset, exec=current.id if current else None)


async def send_signal(guest: Guest, call: ClientCall) -> None:
    """Send a signal to the terminal's foreground; with an `id`, only if that command runs."""
    shell, wanted = guest.shell(call.target("shell")), call.frame.head.get("id")
    name = call.text("signal").removeprefix("SIG")
    if name not in SIGNALS:
        raise RequestRefused("invalid", f"cannot send signal {name}: use one of {', '.join(SIGNALS)}")
    if wanted is not None and (shell.current is None or shell.current.id != wanted):
        await call.finish("ok", offset=shell.log.end, exec=None, reached=False)
        return
    if shell.current is None:
        # What runs was typed by the lease's holder; a command of `exec` may be interrupted by its caller.
        guest.shell_access(shell.name).require(str(call.actor()), f"send signal {name}")
    offset, current = shell.log.end, shell.current
    if name == "INT":
        shell.interrupt()
    else:
        shell.signal(signal.Signals[f"SIG{name}"])
    begun = current is not None and current.phase is not Phase.WAITING
    await call.finish("ok", offset=offset, exec=current.id if current and begun else None, reached=True)


async def check_syntax(guest: Guest, call: ClientCall) -> None:
    """Report whether a text is complete and correct for the shell, which does not have to be free."""
    shell, text = guest.shell(call.target("shell")), call.frame.payload
    if b"\0" in text:
        raise RequestRefused(
            "invalid", "cannot check the text: it contains a NUL byte, which no shell can read"
        )
    if (kind := shell.program.kind) is not ShellKind.BASH:
        raise RequestRefused(
            "invalid", f"cannot check the text: the shell is {kind}, and only bash syntax can be checked"
        )
    try:
        fault = await syntax.check(text, shell.kept.state(), guest.account, guest.reaper)
    except syntax.CannotCheck as error:
        raise RequestRefused("failed", f"cannot check the text: {error}") from None
    found = {"line": fault.line, "message": fault.message, "incomplete": fault.incomplete} if fault else {}
    await call.finish("syntax", **found)


async def resize(guest: Guest, call: ClientCall) -> None:
    """Change the size of the terminal."""
    shell = guest.shell(call.target("shell"))
    guest.shell_access(shell.name).set_size(size_of(call, shell.size))
    await call.finish("ok")


async def _begin(guest: Guest, shell: Shell, call: ClientCall) -> Exec:
    """Begin a command when the shell is free, waiting as long as the caller wants."""
    until = shell.clock() + (call.seconds("busy_wait") or 0.0)
    while True:
        await until_free(shell, until)
        await guest.shell_access(shell.name).admitted(
            str(call.actor()), "run command", call.seconds("lease_wait")
        )
        if shell.current and shell.clock() < until:
            continue
        # The same request may have arrived by another connection meanwhile.
        command = shell.commands.find(call.id()) or _submit(guest, shell, call)
        while command.phase in (Phase.WAITING, Phase.OFFERED):
            await shell.log.more()
        # A typed line may have the shell: only the next attempt will show when it has ended.
        if command.phase is not Phase.REFUSED or command.refusal or shell.clock() >= until:
            return command
        shell.commands.forget(command.id)


def _submit(guest: Guest, shell: Shell, call: ClientCall) -> Exec:
    id_, text, who = call.id(), call.frame.payload, call.who()
    if b"\0" in text:
        raise RequestRefused("invalid", "cannot run command: it contains a NUL byte, which no shell can read")
    timeout = call.seconds("timeout")
    if shell.closing:
        raise RequestRefused("unknown_shell", f"cannot run command: shell {shell.name} is being closed")
    if shell.current:
        raise _busy(shell, shell.current.id)
    guest.notifications.uses(who.actor, shell.name)
    if who.key is not None:
        guest.keyed.begin(id_, "exec", shell.name, text, stream=shell.stream)
    try:
        return shell.submit(id_, text, timeout, who)
    except ShellBusy as busy:
        if who.key is not None:
            guest.keyed.forget(id_)
        raise _busy(shell, busy.holder) from None


async def _follow(guest: Guest, call: ClientCall, shell: Shell, command: Exec) -> None:
    while command.phase in (Phase.WAITING, Phase.OFFERED):
        await shell.log.more()
    if command.phase is Phase.REFUSED:
        shell.commands.forget(command.id)
        raise _busy(shell, None) if not command.refusal else _impossible(command.refusal)
    start = max(call.integer("from_offset", 0, low=0), command.start_offset)
    await call.send("started", id=command.id, offset=command.start_offset, **about(shell.size))
    await _send_output(call, shell, command, start)
    while not command.over:
        await shell.log.more()
    if command.message is None:
        command.message = await explained(guest, shell, command)
    news = guest.notifications.since(str(call.actor()))
    await call.finish(
        "finished",
        id=command.id,
        start_offset=command.start_offset,
        cwd=command.cwd,
        **outcome(command),
        **({"message": command.message} if command.message else {}),
        **({"news": news} if news else {}),
    )


async def _send_output(call: ClientCall, shell: Shell, command: Exec, start: int) -> None:
    """Send the output of a command and, each time it waits, the kind of input."""
    reported = 0

    def waits(offset: int) -> CommandWait | None:
        nonlocal reported
        state = shell.watching.waits(command, reported)
        if state is None or offset < shell.log.end - MAX_MARK:
            return None
        reported = shell.watching.episode
        return CommandWait(state, offset)

    async for item in shell.output(start, lambda: command.end_offset, waits):
        if not isinstance(item, CommandWait):
            await send_output(call, item)
            continue
        await call.send(
            "waiting",
            id=command.id,
            state=item.state.as_dict(),
            start_offset=command.start_offset,
            offset=item.offset,
            duration=round(max(0.0, shell.clock() - command.began), 6),
        )


async def _recall(call: ClientCall, shell: Shell, known: KeyedRequest) -> None:
    """Send the outcome of a command run under a key, long ago or before this supervisor started."""
    ended = known.ended
    if ended is None:
        raise RequestRefused("outcome_unknown", UNKNOWN)
    start, end = ended["start_offset"], ended["end_offset"]
    await call.send("started", id=call.id(), offset=start)
    if known.began.get("stream") == shell.stream:
        await pour(call, shell, max(start, call.integer("from_offset", 0, low=0)), lambda: end)
    else:
        await call.send("gap", offset=start, size=end - start)
    await call.finish("finished", **{**ended, "id": call.id(), "recorded": True})


UNKNOWN = "cannot know how it ended: the session continued without the processes of that time"


def _impossible(reason: str) -> RequestRefused:
    return RequestRefused("impossible", f"cannot run command: {reason}")


def _busy(shell: Shell, holder: str | None) -> RequestRefused:
    if shell.pid and (other := replaced_by(shell.pid, shell.program)):
        return _impossible(
            f"the shell is now {other}, which does not mark where commands end; "
            "type with `send`, look with `screen`, or end it and get a new shell"
        )
    if shell.terminal is None and shell.trouble:
        return _impossible(f"{shell.trouble}; `holdfast run` runs programs without the shell")
    state = shell.watching.state()
    if state.waits:
        now = state.phrase(time.time())
        part = f", in command {holder}" if holder else ""
        return RequestRefused(
            "busy", f"cannot run command: {now}{part}; answer with `holdfast send`, or interrupt it with C-c"
        )
    if holder is not None:
        part = f": {state.phrase(time.time())}" if state.pid and state.state in ("running", "stopped") else ""
        return RequestRefused(
            "busy",
            f"cannot run command: command {holder} is running in the shell{part}; wait, or interrupt it",
        )
    return RequestRefused(
        "busy", f"cannot run command: the terminal is held by {_foreground(shell)}; wait, or interrupt it"
    )


def _foreground(shell: Shell) -> str:
    """Return the terminal's foreground, for people to read."""
    if shell.terminal is None:
        return "nothing: it is starting"
    group = shell.terminal.foreground()
    if group == shell.terminal.pid:
        return "the shell itself: a line typed by hand, or a prompt that is not ready"
    return command_of(group) or "an unknown command"


async def pour(call: ClientCall, shell: Shell, start: int, until: Callable[[], int | None]) -> None:
    """Send the output from `start` on; `until` returns the end offset as soon as it is known."""
    async for item in shell.output(start, until):
        await send_output(call, item)


async def send_output(call: ClientCall, item: OutputPiece | OutputGap) -> None:
    """Send a piece of recorded output, or a gap where it is no longer kept."""
    if isinstance(item, OutputGap):
        await call.send("gap", offset=item.offset, size=item.size)
    else:
        await call.send("output", item.data, offset=item.offset, next=item.next)


def about(size: TerminalSize) -> dict[str, int]:
    """Return the size of a terminal, for clients."""
    return {"rows": size.rows, "cols": size.columns}


def size_of(call: ClientCall, default: TerminalSize) -> TerminalSize:
    """Return the size of a terminal that a request names."""
    return TerminalSize(
        call.integer("rows", default.rows, low=1, high=MAX_SIDE),
        call.integer("cols", default.columns, low=1, high=MAX_SIDE),
    )


async def until_free(shell: Shell, until: float) -> None:
    """Return when no command of `exec` has the shell, or at that time of the loop.

    One that was just interrupted or answered gets a little longer, unless it waits for more input.
    """
    while (current := shell.current) is not None:
        touched = shell.touched + ENDING if shell.touched >= current.began > 0 else 0.0
        limit = max(until, 0.0 if shell.watching.waiting else touched)
        if limit <= asyncio.get_running_loop().time():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(limit):
                await shell.log.more()


async def prompted(shell: Shell) -> None:
    """Return when a shell without a command reads keys, or soon if it does not."""
    limit = asyncio.get_running_loop().time() + ENDING
    while shell.current is None and echo_at(shell) is not Echo.PROMPT:
        try:
            async with asyncio.timeout_at(limit):
                await shell.log.more()
        except TimeoutError:
            return


async def explained(guest: Guest, shell: Shell, command: Exec) -> str:
    """Return the explanation of a command's end, or an empty string."""
    if shell.program.kind is not ShellKind.BASH:
        return ""  # another shell's grammar, of which its own message tells
    if command.exit_code and STARVED in _newest(shell, command):
        from holdfast.runtime.guest.pulse import cgroup_limits  # few sessions need it

        return cgroup_limits.lacks_processes()
    if command.incomplete:
        fault = await _fault(guest, shell, command)
        why = f" ({fault.phrase()})" if fault and fault.incomplete else ""
        return f"the command is not finished{why}: {_HOW}; the part that had not run was dropped"
    if command.exit_code == BAD_USAGE or _complains(shell, command):
        fault = await _fault(guest, shell, command)
        if fault is not None:
            return f"bash could not read all of the command: {fault.phrase()}"
    return ""


def _complains(shell: Shell, command: Exec) -> bool:
    """Return whether the output has bash's complaint. The lines after it run anyway."""
    return COMPLAINT in _newest(shell, command)


def _newest(shell: Shell, command: Exec) -> bytes:
    end = command.end_offset or 0
    start = max(command.start_offset, end - LOOKED_AT, shell.log.start)
    return shell.log.read(start, end - start) if start < end else b""


async def _fault(guest: Guest, shell: Shell, command: Exec) -> syntax.SyntaxFault | None:
    text = shell.commands.text_of(command)
    if text is None:
        return None
    try:
        return await syntax.check(text, shell.kept.state(), guest.account, guest.reaper, SECONDS)
    except syntax.CannotCheck:
        return None


OPERATIONS: Operations = {
    "shell_open": open_,
    "shell_close": close,
    "check_syntax": check_syntax,
    "exec": run,
    "wait": wait,
    "read": read,
    "send": send,
    "signal": send_signal,
    "resize": resize,
}
