"""Shells of a session as clients of this wire use them: open, run, drive a program, interrupt, close.

A command whose time is over continues, as at their own server; its caller interrupts it. After a number of
interrupts that were not obeyed, the job is stopped and killed, as their own server does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from holdfast.errors import SessionBusy, ShellNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.swerex.expected_output import ExpectedOutput, ReadingPlace, UnreadOutput, shown
from holdfast.runtime.swerex.runtime_bodies import (
    PROMPT,
    CommandFailed,
    ExitCodeUnknown,
    NewShell,
    Observation,
    ShellCommand,
    ShellExists,
    ShellInterrupt,
    SyntaxIsWrong,
    TimeIsOver,
)

AS_LONG_AS_IT_TAKES = 1e8
"""Seconds for which a command without a time limit waits for its shell."""
BUSY_SECONDS = 30.0
"""The longest time a new shell can take to be ready."""
PLAIN_TERMINAL = "export TERM=dumb"
"""Programs that are driven line by line must not draw their prompt again with every character typed."""
EXIT_SECONDS = 1.0
"""How long a command may still run after it has shown what was expected, for its exit code to be known."""


def open_shell(found: Session, asked: NewShell, patience: Patience) -> str:
    """Open a shell, and return its startup files' output.

    `patience` is the longest time for them, if there are any.

    Raises:
        ShellExists: there is one of that name.
        TimeIsOver: the files took too long; the shell is closed again.
        InvalidArgument, GuestError: the name is not valid, or there are too many.
    """
    if any(each.name == asked.session for each in found.shells.list()):
        raise ShellExists(
            f"cannot create session {asked.session}: it already exists",
            hint="close it, or use a different name",
        )
    found.shells.open(asked.session)
    command = "; ".join([PLAIN_TERMINAL, *(f"source {each}" for each in asked.startup_source)])
    try:
        result = found.exec(
            command,
            shell=asked.session,
            patience=patience if asked.startup_source else None,
            busy_wait=BUSY_SECONDS,
            wait=True,
        )
        if result.running:
            raise TimeIsOver(
                f"cannot start session {asked.session}: its startup files take more than"
                f" {asked.startup_timeout:g} s",
                hint="allow more with startup_timeout",
            )
    except BaseException:
        found.shells.close(asked.session, force=True)
        raise
    return _text(result)


def close_shell(found: Session, name: str) -> None:
    """Close a shell, and end its programs.

    Raises:
        SessionBusy: a terminal is attached to it.
        ShellNotFound, InvalidArgument, GuestError: there is none of that name, or it is the main one.
    """
    found.shells.close(name, force=not found.terminal_of(name).lease().attached)


def close_shells(found: Session) -> None:
    """Close the shells, except the main one and those to which a terminal is attached."""
    for each in found.shells.list():
        with suppress(ShellNotFound):  # another client has closed it meanwhile
            if each.name != defaults.MAIN and not found.terminal_of(each.name).lease().attached:
                found.shells.close(each.name, force=True)


class CommandAction:
    """One action: a command, or a line for the program that runs."""

    def __init__(
        self, found: Session, asked: ShellCommand, patience: Patience, key: str | None, unread: UnreadOutput
    ) -> None:
        self._found, self._asked, self._key = found, asked, key
        self._patience, self._unread = patience, unread
        self._output = ExpectedOutput(asked.expect)
        self._waits: State | None = None

    def run(self) -> Observation:
        """Carry out the action.

        Raises:
            TimeIsOver, CommandFailed, SyntaxIsWrong, ExitCodeUnknown: as the caller wants them.
            ShellNotFound, SessionError, GuestError: it cannot be done.
        """
        if self._asked.interactive:
            return self._interactive()
        return self._command()

    def _command(self) -> Observation:
        asked = self._asked
        if all(line.lstrip().startswith("#") for line in asked.command.splitlines() if line.strip()):
            return Observation(exit_code=None if asked.check == "ignore" else 0)  # there is nothing to run
        self._check_syntax()
        result = self._exec()
        if self._output.found:
            seen = self._to_its_end(result)
        elif result.running:
            raise self._not_ended(result)
        else:
            seen = self._seen(result, shown(self._output.before) if asked.expect else _text(result))
        if asked.check == "ignore":
            return Observation(seen.output, None, seen.failure_reason, seen.expect_string)
        if asked.check == "raise" and seen.exit_code is None:
            raise ExitCodeUnknown(self._said("cannot tell the exit code: the command still runs"))
        if asked.check == "raise" and seen.exit_code != 0:
            why = f" ({seen.failure_reason})" if seen.failure_reason else ""
            raise CommandFailed(
                self._said(
                    f"Command {asked.command!r} failed with exit code {seen.exit_code}{why}."
                    f" Here is the output:\n{seen.output!r}"
                )
            )
        return seen

    def _interactive(self) -> Observation:
        asked = self._asked
        terminal = self._found.terminal_of(asked.session)
        info = terminal.info()
        if info.command_id is None:
            if not asked.command.strip():
                return Observation()
            result = self._exec()
        else:
            place = self._unread.take(self._found.id, asked.session, info.command_id)
            place = place or ReadingPlace(info.command_id, info.offset)
            if self._output.feed(place.text):
                self._patience.end()
            terminal.send(asked.command + "\n")
            result = self._found.join(
                place.command_id,
                start=place.offset,
                shell=asked.session,
                patience=self._patience,
                on_output=self._heard,
                on_waiting=self._note,
            )
        if result.running:
            self._keep(result, self._output.after if self._output.found else self._output.before)
        if result.running and not self._output.found:
            raise self._not_ended(result)
        output = shown(self._output.before).lstrip().removeprefix(asked.command.rstrip("\n")).strip()
        seen = self._seen(result, output)
        return replace(seen, exit_code=0) if result.running else seen

    def _exec(self) -> ExecResult:
        asked, begun = self._asked, time.monotonic()
        streams: dict[str, Callable[..., object]] = {}
        if asked.expect or asked.interactive:
            streams["on_output"] = self._heard
        if asked.expect or asked.interactive or asked.timeout is not None:
            streams["on_waiting"] = self._note
        try:
            return self._found.exec(
                asked.command,
                shell=asked.session,
                patience=self._patience,
                busy_wait=AS_LONG_AS_IT_TAKES if asked.timeout is None else asked.timeout,
                key=self._key,
                **streams,  # type: ignore[arg-type]
            )
        except SessionBusy as error:
            if asked.timeout is None or time.monotonic() - begun < asked.timeout:
                raise
            raise TimeIsOver(str(error)) from error

    def _heard(self, text: str) -> None:
        if self._output.feed(text):
            self._patience.end()

    def _note(self, state: State) -> None:
        self._waits = state

    def _check_syntax(self) -> None:
        fault = self._found.check_syntax(self._asked.command, shell=self._asked.session)
        if not fault.ok:
            place = "" if fault.line is None else f"line {fault.line}: "
            raise SyntaxIsWrong(
                f"cannot run the command {self._asked.command!r}: {place}{fault.message}",
                details={"bash_stdout": "", "bash_stderr": f"{place}{fault.message}\n"},
            )

    def _to_its_end(self, result: ExecResult) -> Observation:
        """Return the output of a command that matched a pattern, and its exit code if it ends soon."""
        more = ""
        if result.running and self._asked.check != "ignore":
            result = self._found.join(
                result.command_id,
                start=result.end_offset,
                shell=self._asked.session,
                patience=EXIT_SECONDS,
                wait=True,
            )
            more = _decoded(result.output)
        more = self._output.after + more
        if result.running:
            self._keep(result, more)
            more = ""
        return self._seen(result, shown(self._output.before + more))

    def _seen(self, result: ExecResult, output: str) -> Observation:
        """Return the outcome of a command, with remarks in addition to its exit code."""
        streamed = self._asked.expect or self._asked.interactive
        lost = result.lost + (self._output.dropped if streamed else result.dropped)
        reasons = [result.message] if result.message else []
        if result.shell_exited:
            reasons.append("the command ended the shell")
        if lost:
            reasons.append(f"{lost} bytes at the beginning of its output are left out")
        return Observation(output, result.exit_code, "; ".join(reasons), self._output.found or PROMPT)

    def _keep(self, result: ExecResult, text: str) -> None:
        """Keep unread output for the next action."""
        place = ReadingPlace(result.command_id, result.end_offset, text)
        self._unread.keep(self._found.id, self._asked.session, place)

    def _not_ended(self, result: ExecResult) -> TimeIsOver:
        what = f"the command {self._asked.command!r}"
        state = self._waits or result.waiting
        if result.waiting is not None:
            how = result.waiting.phrase(time.time())
            return TimeIsOver(f"cannot wait for {what}: {how}", hint="answer it, or interrupt it")
        if self._patience.ended:
            return TimeIsOver(f"cannot wait for {what}: the server ends; the command continues")
        how = f"; {state.phrase(time.time())}" if state is not None else ""
        return TimeIsOver(
            f"cannot wait for {what}: timeout after {self._asked.timeout:g} s; it continues{how}"
        )

    def _said(self, message: str) -> str:
        return f"{self._asked.error_msg}: {message}" if self._asked.error_msg else message


def _text(result: ExecResult) -> str:
    return shown(_decoded(result.output))


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", "backslashreplace")


PAUSE = 0.5
"""Seconds that an interrupted program has in addition to the caller's."""
STOP_SECONDS = 5.0
"""How long a program has to stop."""
JOB = "builtin jobs -p %%"
"""Prints the process group of the job that was stopped last."""
KILL = 'kill -9 -- "-$1" && while kill -0 -- "-$1" 2>/dev/null; do sleep 0.02; done'
"""Waits until the shell knows of the end, so that the shell reports it with the next command."""
KILL_SECONDS = 10.0


class ForcedInterrupt:
    """The interrupt of a program in one shell."""

    def __init__(
        self, found: Session, asked: ShellInterrupt, patience: Patience, unread: UnreadOutput
    ) -> None:
        self._found, self._asked, self._patience, self._unread = found, asked, patience, unread
        self._output = ExpectedOutput(asked.expect)

    def run(self) -> Observation:
        """Interrupt it until it ends or shows what is expected; stop and kill it if it does neither.

        Raises:
            TimeIsOver: it could not even be stopped.
            ShellNotFound, SessionError, GuestError: it cannot be done.
        """
        patience = self._asked.timeout + PAUSE
        for _ in range(max(1, self._asked.n_retry)):
            result = self._found.interrupt(shell=self._asked.session, patience=patience)
            if result is None or self._has_ended(result):
                return self._observed(result)
            if self._patience.ended:
                raise self._obstinate("not be interrupted before the client, or the server, has ended")
        assert result is not None
        self._found.terminal_of(self._asked.session).send_keys("C-z")
        stopped = self._found.join(
            result.command_id,
            start=result.end_offset,
            shell=self._asked.session,
            patience=STOP_SECONDS,
            wait=True,
        )
        if self._has_ended(stopped):
            if not self._output.found:
                self._kill()
            return self._observed(stopped)
        raise self._obstinate("neither be interrupted nor stopped")

    def _kill(self) -> None:
        """Kill the stopped job directly: the shell would report the end now or later."""
        told = self._found.exec(JOB, shell=self._asked.session, busy_wait=KILL_SECONDS, timeout=KILL_SECONDS)
        groups = re.findall(r"^(\d{1,10})\r?$", told.text, re.MULTILINE | re.ASCII)
        if not groups:  # it has ended meanwhile
            return
        words = ["/bin/bash", "-c", KILL, "bash", groups[-1]]
        if not self._found.programs.run(words, timeout=KILL_SECONDS).ok:
            raise self._obstinate("be stopped, but not killed")

    def _obstinate(self, how: str) -> TimeIsOver:
        return TimeIsOver(
            f"cannot interrupt the program in session {self._asked.session}: it can {how}",
            hint="close the session, or end the program with execute",
        )

    def _has_ended(self, result: ExecResult) -> bool:
        return self._output.feed(result.text) or not result.running

    def _observed(self, result: ExecResult | None) -> Observation:
        output = shown(self._output.before).strip()
        if not self._output.found:
            return Observation(output)
        if result is not None and result.running:
            place = ReadingPlace(result.command_id, result.end_offset, self._output.after)
            self._unread.keep(self._found.id, self._asked.session, place)
        return Observation(output, expect_string=self._output.found)
