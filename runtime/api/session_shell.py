"""The shells of a session, as its handle offers them: run, join, answer, detach.

What a person sees and types is `terminal`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.api import task
from holdfast.runtime.api.terminal_handle import SessionTerminal
from holdfast.runtime.capture import autosnapshot
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc.idempotent_calls import exec_once
from holdfast.runtime.guest_rpc.reply import answer, interrupt
from holdfast.runtime.guest_rpc.results import ExecResult, SyntaxCheck
from holdfast.runtime.guest_rpc.session_channel import Line
from holdfast.runtime.guest_rpc.shell_calls import (
    Following,
    OnBytes,
    OnOutput,
    OnWaiting,
    ShellCall,
    check_syntax,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.runtime.api.task import Task


INTERRUPT_PATIENCE = 10.0


class SessionShell:
    """Runs commands in the shells of one session."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        patience: float | None = None,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        lease_wait: float | None = None,
        busy_wait: float | None = None,
        key: str | None = None,
        reason: str | None = None,
        on_waiting: OnWaiting | None = None,
        shell: str = layout.MAIN,
    ) -> ExecResult:
        """Run a command in the shell, until it ends or waits for somebody to answer it.

        What it changes (directory, variables, jobs) stays.  It runs once, even if the session is captured
        meanwhile.  A command that fails is a result.  One that asks for a password or a key goes on when it
        is answered by `send`; the result then says what it is `waiting` for.

        Args:
            command: any text bash can read, also of several lines.
            wait: go on waiting for its end while it waits: another one answers it.
            lease_wait: seconds to wait for the shell while a person holds it; else that is SessionBusy.
            busy_wait: seconds to wait while another command runs in the shell; else that is SessionBusy.
            timeout: seconds; then it is interrupted.
            patience: seconds from its start; then the result is that it still runs, as it does. `join`
                follows it further.
            on_output: is given the output as it comes, as text; the result then keeps the last MiB of it
                only.
            on_bytes: the same, as bytes, which may be cut within a character.
            key: under the same key it runs once, also if this process dies: later calls join it, or get what
                was recorded.
            reason: why, for the journal.
            on_waiting: is told each time it waits for somebody; then as with `wait`.
            shell: which of the session's shells.

        Raises:
            SessionBusy: something else runs in the shell, or somebody else holds it.
            ShellNotFound: the session has no shell of that name.
            InvalidArgument: the key stands for another command.
            OutcomeUnknown: it may have run under its key, and the session is gone.
            SessionDead, SessionError: the session cannot be used.
        """

        def call() -> ExecResult:
            with self._line.explained():
                return autosnapshot.around(self._line, command, run, autosnapshot.of_command)

        def run() -> ExecResult:
            running = ShellCall(
                self._line.client(),
                self._line.persistence(),
                command,
                shell=shell,
                timeout=timeout,
                on_output=on_output,
                on_bytes=on_bytes,
                wait=wait,
                lease_wait=lease_wait,
                busy_wait=busy_wait,
                patience=patience,
                key=key,
                reason=reason,
            )
            running.on_waiting = on_waiting
            return running.run()

        return (
            call()
            if key is None
            else exec_once(self._line.context, self._line.known, key, command, shell, call)
        )

    def check_syntax(self, text: str, *, shell: str = layout.MAIN) -> SyntaxCheck:
        """Whether bash would read all of a text, without running any of it; the shell may be busy.

        It is read as the shell reads now: with its aliases, `extglob` and the like. What the text itself
        changes of that is not known before it runs.

        Raises:
            GuestError: bash could not be asked, or took longer than ten seconds.
        """
        with self._line.explained():
            return self._line.persistence().run(lambda: check_syntax(self._line.client(), text, shell))

    def join(
        self,
        command_id: str,
        *,
        start: int | None = None,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        patience: float | None = None,
        shell: str = layout.MAIN,
    ) -> ExecResult:
        """Follow a command that was begun elsewhere: by another process, or before a restore. As `exec`.

        Args:
            command_id: as in `shell().command_id` while it runs; the same in every session restored from a
                snapshot that was taken then. The last 1000 commands are known.
            start: offset of the output to begin with, such as `end_offset` of an earlier result; else all.
            on_output: is given the output from there, then as it comes, as text; `on_bytes` as bytes.
            wait: as for `exec`.
            patience: seconds; then the result is that it still runs. The command goes on.
            shell: which of the session's shells.

        Raises:
            CommandNotFound: the session does not know the command.
        """
        with self._line.explained():
            return Following(
                self._line.client(),
                self._line.persistence(),
                command_id,
                shell=shell,
                on_output=on_output,
                on_bytes=on_bytes,
                wait=wait,
                patience=patience,
            ).run(start)

    def detach(
        self,
        command: str,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        lease_wait: float | None = None,
    ) -> Task:
        """Start a command apart from the shell, on a terminal of its own; it goes on by itself.

        It begins in the shell's directory and with what the shell exports.

        Args:
            command: as bash reads it.
            name: to find it by, among those that run.
            env: more variables.
            cwd: another directory.
            lease_wait: seconds to wait while a person holds the shell.
        """
        autosnapshot.before(self._line, command)
        return task.start(self._line, command, name=name, env=env, cwd=cwd, lease_wait=lease_wait)

    def send(self, text: str | bytes, *, shell: str = layout.MAIN) -> None:
        """Type text into the terminal, as it is.

        Raises:
            InvalidArgument: as `SessionTerminal.send`: the terminal would cut a line of it.
        """
        SessionTerminal(self._line, shell).send(text)

    def answer(
        self,
        text: str | bytes,
        *,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        patience: float | None = None,
        shell: str = layout.MAIN,
    ) -> ExecResult:
        """Type text for the command that runs, and follow it from there: as `send`, then as `join`.

        The output of the result is what came after the text. Most programs want a newline at its end: without
        it they wait as before. After `patience` seconds the result is that it still runs.

        Raises:
            InvalidArgument: no command of `exec` runs; the text was typed all the same. Or as `send`.
        """
        with self._line.explained():
            return answer(
                self._line,
                text,
                shell=shell,
                on_output=on_output,
                on_bytes=on_bytes,
                wait=wait,
                patience=patience,
            )

    def interrupt(
        self, *, patience: float = INTERRUPT_PATIENCE, shell: str = layout.MAIN
    ) -> ExecResult | None:
        """Send the terminal's interrupt (SIGINT) to what runs in its foreground, and say what it came to.

        Args:
            patience: seconds for the command to end, or to wait for somebody again, as a Python prompt does;
                then the result is that it still runs.
            shell: which of the session's shells.

        Returns:
            The result of the command that `exec` had begun, with the output that came after the interrupt;
            None if there was none.
        """
        with self._line.explained():
            return interrupt(self._line, shell=shell, patience=patience)
