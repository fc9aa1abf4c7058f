"""The shells of a session, as its handle offers them: run, join, answer, detach; listed, opened, closed.

The screen and the keyboard belong to `terminal_handle`.
"""

from __future__ import annotations

from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.runtime.api.job import Job
    from holdfast.runtime.guest_rpc.patience import Patience
    from holdfast.runtime.guest_rpc.results import ExecResult
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.guest_rpc.shell_calls import OnBytes, OnOffset, OnOutput, OnStart, OnWaiting
    from holdfast.runtime.guest_rpc.shell_report import ShellInfo, SyntaxCheck


INTERRUPT_PATIENCE = 10.0


class SessionShell:
    """Runs commands in the shells of one session."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    @call_arguments.awaits_nothing
    def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        patience: float | Patience | None = None,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        lease_wait: float | None = None,
        busy_wait: float | None = None,
        key: str | None = None,
        reason: str | None = None,
        on_waiting: OnWaiting | None = None,
        on_start: OnStart | None = None,
        on_offset: OnOffset | None = None,
        shell: str = defaults.MAIN,
    ) -> ExecResult:
        """Run a command in the shell, until it ends or waits for input.

        Its changes (directory, variables, jobs) stay. It runs once, even if the session is captured during
        it. A command that fails is a result. One that asks for a password or a key continues when `send`
        answers it; the result then says what it is `waiting` for.

        Args:
            command: any text that bash can read, including several lines.
            wait: keep waiting for its end while it waits for input: another caller answers it.
            lease_wait: seconds to wait for the shell while a person holds it; else SessionBusy is raised
                at once.
            busy_wait: seconds to wait while another command runs in the shell; else SessionBusy is raised
                at once.
            timeout: seconds after which it is interrupted.
            patience: seconds from its start after which the result says that it still runs, undisturbed,
                or a `Patience`, which a different thread can end. `join` follows it further.
            on_output: called with the output as it comes, as text; the result then keeps only the last
                MiB of it.
            on_bytes: the same, as bytes, which can be split within a character.
            key: under the same key it runs once, even if this process dies: later calls join it, or
                return what was recorded.
            reason: why, for the journal.
            on_waiting: called each time it begins to wait for input; implies `wait`.
            on_start: called with its id when it has begun; `interrupt` in another thread can name it.
            on_offset: called after each piece of output with the offset at which `join` would continue.
            shell: which of the session's shells.

        Raises:
            SessionBusy: something else runs in the shell, another actor holds it, or the patience was ended
                before the command began.
            ShellNotFound: the session does not have a shell with that name.
            InvalidArgument: the key was used for a different command.
            OutcomeUnknown: it possibly ran under its key, and the session was removed.
            SessionDead, SessionError: the session cannot be used.
        """

        def call() -> ExecResult:
            with self._line.explained():
                if not self._line.captures():
                    return run()
                from holdfast.runtime.capture import autosnapshot

                return autosnapshot.around(self._line, command, run, autosnapshot.of_command)

        def run() -> ExecResult:
            from holdfast.runtime.guest_rpc.shell_calls import ShellCall

            running = ShellCall(
                self._line.client(),
                self._line.reconnection(wakes=True),
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
            running.on_start = on_start
            running.on_offset = on_offset
            return running.run()

        self._line.begins()
        if key is None:
            return call()
        from holdfast.runtime.guest_rpc.idempotency import exec_once

        return exec_once(self._line.context, self._line.known, key, command, shell, call)

    def check_syntax(self, text: str, *, shell: str = defaults.MAIN) -> SyntaxCheck:
        """Check whether bash can parse the whole text, without running it; the shell can be busy.

        It is parsed with the shell's present settings: its aliases, `extglob` and the like. Changes that the
        text itself makes to these are not known before it runs.

        Raises:
            GuestError: bash could not be asked, or took longer than ten seconds.
        """
        from holdfast.runtime.guest_rpc.shell_report import check_syntax

        with self._line.explained():
            return self._line.reconnection().run(lambda: check_syntax(self._line.client(), text, shell))

    @call_arguments.awaits_nothing
    def join(
        self,
        command_id: str,
        *,
        start: int | None = None,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        on_waiting: OnWaiting | None = None,
        on_offset: OnOffset | None = None,
        wait: bool = False,
        patience: float | Patience | None = None,
        shell: str = defaults.MAIN,
    ) -> ExecResult:
        """Follow a command that was started elsewhere: by another process, or before a restore. As `exec`.

        Args:
            command_id: as in `shell().command_id` while it runs; the same in every session restored from
                a snapshot that was taken then. The last 1000 commands are known.
            start: offset of the output to begin with, such as `end_offset` of an earlier result; by
                default all.
            on_output: called with the output from there, then as it comes, as text; `on_bytes` as bytes.
            on_waiting: as for `exec`, like `on_offset` and `wait`.
            on_offset: see `on_waiting`.
            wait: see `on_waiting`.
            patience: seconds after which the result says that it still runs, or a `Patience`. The command
                continues.
            shell: which of the session's shells.

        Raises:
            CommandNotFound: the session does not know the command.
        """
        from holdfast.runtime.guest_rpc.shell_calls import Following

        with self._line.explained():
            following = Following(
                self._line.awake().client(),
                self._line.reconnection(),
                command_id,
                shell=shell,
                on_output=on_output,
                on_bytes=on_bytes,
                wait=wait,
                patience=patience,
            )
            following.on_waiting = on_waiting
            following.on_offset = on_offset
            return following.run(start)

    def detach(
        self,
        command: str,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        rows: int | None = None,
        cols: int | None = None,
        apart: bool = False,
        lease_wait: float | None = None,
    ) -> Job:
        """Start a command outside the shell, on a terminal of its own, where it continues independently.

        It starts in the shell's directory with the shell's exported variables.

        Args:
            command: as the session's shell reads it.
            name: to find it by, while it runs.
            env: more variables.
            cwd: another directory.
            user: a user of the session, by default the session's; others have the environment of a login.
            rows: height of its terminal in characters; 40 by default.
            cols: width of its terminal in characters; 120 by default.
            apart: start it even while a person holds the shell, as programs are.
            lease_wait: seconds to wait while a person holds the shell.
        """
        from holdfast.runtime.api import job

        self._line.awake()
        if self._line.captures():
            from holdfast.runtime.capture import autosnapshot

            autosnapshot.before(self._line, command)
        how = {"user": user, "rows": rows, "cols": cols, "apart": apart}
        return job.start(self._line, command, name=name, env=env, cwd=cwd, lease_wait=lease_wait, how=how)

    def send(self, text: str | bytes, *, shell: str = defaults.MAIN) -> None:
        """Type text into the terminal, as it is.

        Raises:
            InvalidArgument: as for `SessionTerminal.send`: the terminal would truncate a line of it.
        """
        from holdfast.runtime.api.terminal_handle import SessionTerminal

        SessionTerminal(self._line, shell).send(text)

    @call_arguments.awaits_nothing
    def answer(
        self,
        text: str | bytes,
        *,
        on_output: OnOutput | None = None,
        on_bytes: OnBytes | None = None,
        wait: bool = False,
        patience: float | Patience | None = None,
        on_waiting: OnWaiting | None = None,
        on_start: OnStart | None = None,
        on_offset: OnOffset | None = None,
        shell: str = defaults.MAIN,
    ) -> ExecResult:
        """Type text for the command that runs, and follow it from there: `send`, then `join`.

        The output of the result follows the text. Most programs need a newline at its end: without it they
        keep waiting. After `patience` seconds the result says that it still runs. The callbacks are the
        same as for `exec`.

        Raises:
            InvalidArgument: no command of `exec` runs, although the text was typed; or as for `send`.
        """
        from holdfast.runtime.guest_rpc.reply import answer

        with self._line.explained():
            return answer(
                self._line,
                text,
                shell=shell,
                on_output=on_output,
                on_bytes=on_bytes,
                wait=wait,
                patience=patience,
                on_waiting=on_waiting,
                on_start=on_start,
                on_offset=on_offset,
            )

    def interrupt(
        self,
        *,
        command_id: str | None = None,
        patience: float = INTERRUPT_PATIENCE,
        shell: str = defaults.MAIN,
    ) -> ExecResult | None:
        """Send the terminal's interrupt (SIGINT) to its foreground processes, and return the outcome.

        Args:
            command_id: interrupt only this command; if a different one runs by now, do nothing.
            patience: seconds for the command to end, or to wait for input again, as a Python prompt does;
                then the result says that it still runs.
            shell: which of the session's shells.

        Returns:
            The result of the command that `exec` had started, with the output after the interrupt; None if
            there was none.
        """
        from holdfast.runtime.guest_rpc.reply import interrupt

        with self._line.explained():
            return interrupt(self._line, shell=shell, patience=patience, command_id=command_id)


class SessionShells:
    """The shells of one session. `main` is always there; others last until they are closed."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    def list(self) -> tuple[ShellInfo, ...]:
        """Return all shells, the main one first.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.shell_report import Shells

        return Shells.of(self._line.request("hello").head).shells

    def open(self, name: str, *, rows: int | None = None, cols: int | None = None) -> ShellInfo:
        """Open a shell, or return the open shell with that name.

        It is a bash of its own, with its own terminal, directory, variables, jobs, lease and recording, and
        is captured, restored and forked with the session. A restore without processes has the main one only.

        Args:
            name: up to 40 letters, digits, `-` and `_`.
            rows: height of its terminal in characters; 40 by default.
            cols: width of its terminal in characters; 120 by default.

        Raises:
            InvalidArgument: the name or the size is not valid.
            GuestError: there are 16 already.
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime.guest_rpc.shell_report import reported

        given = call_arguments.text(name, "shell")
        return reported(self._line.request("shell_open", uses=True, shell=given, rows=rows, cols=cols).head)

    def close(self, name: str, *, force: bool = False) -> None:
        """End a shell and the programs on its terminal, and forget its output.

        Background programs that ignore hangups continue.

        Args:
            name: any but `main`.
            force: also if a command runs in it, or others use it.

        Raises:
            ShellNotFound: the session does not have a shell with that name.
            SessionBusy: a command runs in it, or others use it.
            InvalidArgument: it is the main one.
            SessionDead, SessionError: the session cannot be used.
        """
        self._line.request("shell_close", shell=call_arguments.text(name, "shell"), force=force)
