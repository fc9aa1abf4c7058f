"""A handle on one session: its shell, its kernel, its snapshots.

Holds nothing that matters: any number of handles, in any process, may stand for one session.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from holdfast.errors import SessionNotFound
from holdfast.runtime import events, health, tasks
from holdfast.runtime.answering import answer, answer_cell
from holdfast.runtime.guest import layout
from holdfast.runtime.kernel_calls import KernelCall, OnEvent, OnInput
from holdfast.runtime.keyed_calls import cell_once, exec_once
from holdfast.runtime.line import Line
from holdfast.runtime.results import CellResult, ExecResult, ShellInfo
from holdfast.runtime.shell_calls import Following, OnOutput, ShellCall
from holdfast.runtime.store.rows import SessionRow, SnapshotKind
from holdfast.runtime.terminal import SessionTerminal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.events import Event
    from holdfast.runtime.journal.entry import Entry
    from holdfast.runtime.pulse import Port, Pulse
    from holdfast.runtime.snapshot import Snapshot
    from holdfast.runtime.tasks import Task, TaskInfo


class Session:
    """One session. Attributes are as of the last call that looked; `refresh` looks again."""

    def __init__(self, controller: Holdfast, row: SessionRow) -> None:
        self._controller = controller
        self._row = row
        self._line = Line(controller, lambda: self._row)

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """12 hex digits."""
        return self._row.id

    @property
    def name(self) -> str:
        """Unique among the sessions that are there."""
        return self._row.name

    @property
    def state(self) -> str:
        """`running`, `suspended`, `dead`, `creating` or `removed`."""
        return self._row.state

    @property
    def image(self) -> str:
        """The image it was made from."""
        return self._row.image

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return self._row.created_at

    @property
    def parent_snapshot_id(self) -> str | None:
        """The snapshot it was restored from, if it was."""
        return self._row.parent_snapshot_id

    @property
    def row(self) -> SessionRow:
        """What the store knows."""
        return self._row

    def refresh(self) -> Session:
        """Look again at the store and at the container."""
        with contextlib.suppress(SessionNotFound):
            health.observed(self._controller, self._row, set())
        found = [row for row in self._controller.store.sessions(removed=True) if row.id == self.id]
        self._row = found[0]
        return self

    # The shell.

    def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        wait: bool = False,
        lease_wait: float | None = None,
        key: str | None = None,
        reason: str | None = None,
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
            timeout: seconds; then it is interrupted.
            on_output: is given the output as it comes; the result then keeps the last MiB of it only.
            key: under the same key it runs once, also if this process dies: later calls join it, or get what
                was recorded.
            reason: why, for the journal.
            shell: which of the session's shells.

        Raises:
            SessionBusy: something else runs in the shell, or somebody else holds it.
            InvalidArgument: the key stands for another command.
            OutcomeUnknown: it may have run under its key, and the session is gone.
            SessionDead, SessionError: the session cannot be used.
        """

        def call() -> ExecResult:
            with self._line.explained():
                return ShellCall(
                    self._line.client(),
                    self._line.persistence(),
                    command,
                    shell=shell,
                    timeout=timeout,
                    on_output=on_output,
                    wait=wait,
                    lease_wait=lease_wait,
                    key=key,
                    reason=reason,
                ).run()

        return call() if key is None else exec_once(self._controller, self._row, key, command, shell, call)

    def join(
        self,
        command_id: str,
        *,
        on_output: OnOutput | None = None,
        wait: bool = False,
        patience: float | None = None,
        shell: str = layout.MAIN,
    ) -> ExecResult:
        """Follow a command that was begun elsewhere: by another process, or before a restore. As `exec`.

        Args:
            command_id: as in `shell().command_id` while it runs; the same in every session restored from a
                snapshot that was taken then. The last 1000 commands are known.
            on_output: is given the output from its beginning, then as it comes.
            wait: as for `exec`.
            patience: seconds; then the result is that it still runs. The command goes on.
            shell: which of the session's shells.

        Raises:
            GuestError: the session does not know the command.
        """
        with self._line.explained():
            return Following(
                self._line.client(),
                self._line.persistence(),
                command_id,
                shell=shell,
                on_output=on_output,
                wait=wait,
                patience=patience,
            ).run()

    def detach(
        self,
        command: str,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Task:
        """Start a command apart from the shell, on a terminal of its own; it goes on by itself.

        It begins in the shell's directory and with what the shell exports.

        Args:
            command: as bash reads it.
            name: to find it by, among those that run.
            env: more variables.
            cwd: another directory.
        """
        return tasks.start(self._line, command, name=name, env=env, cwd=cwd)

    def tasks(self) -> list[TaskInfo]:
        """The commands started by `detach`, the oldest first; of those that ended the last 200."""
        return tasks.listed(self._line)

    def task(self, ref: str) -> Task:
        """The task of that id or name, or of these first digits of its id."""
        return tasks.Task(self._line, tasks.listed(self._line, ref)[0].id)

    def events(
        self, after: int = 0, *, follow: bool = False, kinds: Collection[str] | None = None
    ) -> Iterator[Event]:
        """What happened in the session, oldest first: what died and why, what waits, who came.

        Args:
            after: the `seq` of the last event that is known.
            follow: go on with what happens, until the session ends; that is the last event.
            kinds: of entries of the journal; all notable ones if left out.
        """
        return events.read(self._controller, self._line, self.id, after=after, follow=follow, kinds=kinds)

    def journal(
        self,
        after: int | None = None,
        *,
        kinds: Collection[str] | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        grep: str | None = None,
        all_timelines: bool = False,
    ) -> list[Entry]:
        """What was done in the session and in those it goes back to, oldest first; also when it is gone.

        Args:
            after: the `seq` of an entry; only those behind it.
            kinds: of entries; all if left out.
            actor: who, such as `person:alice`, or a kind of actor.
            since: only what happened from then on.
            grep: a text that occurs in them, in upper or lower case.
            all_timelines: also what happened after the moments that sessions were restored from, and in
                other forks; such entries are not `current`.
        """
        from holdfast.runtime.journal import reading

        moment = None if since is None else since.timestamp()
        wanted = reading.Filter(after, kinds, actor, moment, grep)
        return reading.read(self._controller, self.id, wanted, all_timelines=all_timelines)

    @property
    def terminal(self) -> SessionTerminal:
        """The terminal of the main shell: its screen, its keys, who holds it."""
        return self.terminal_of(layout.MAIN)

    def terminal_of(self, shell: str) -> SessionTerminal:
        """The terminal of a shell."""
        return SessionTerminal(self._line, shell)

    def send(self, text: str | bytes, *, shell: str = layout.MAIN) -> None:
        """Type text into the terminal, as it is."""
        self.terminal_of(shell).send(text)

    def answer(
        self,
        text: str | bytes,
        *,
        on_output: OnOutput | None = None,
        wait: bool = False,
        shell: str = layout.MAIN,
    ) -> ExecResult:
        """Type text for the command that runs, and follow it from there: as `send`, then as `join`.

        The output of the result is what came after the text. Most programs want a newline at its end.

        Raises:
            InvalidArgument: no command of `exec` runs; the text was typed all the same.
        """
        with self._line.explained():
            return answer(self._line, text, shell=shell, on_output=on_output, wait=wait)

    def interrupt(self, *, shell: str = layout.MAIN) -> None:
        """Send the terminal's interrupt (SIGINT) to what runs in its foreground."""
        self._line.request("signal", shell=shell, signal="INT")

    def shell(self, name: str = layout.MAIN) -> ShellInfo:
        """What the supervisor says about a shell."""
        return self.terminal_of(name).info()

    # What goes on.

    def pulse(
        self,
        *,
        parts: Sequence[str] | None = None,
        files: bool = False,
        pid: int | None = None,
        file: str | None = None,
        screens: bool = False,
        disk: bool = False,
    ) -> Pulse:
        """What goes on now: processes, files, sockets, terminals, kernels, limits. Disturbs nothing.

        Args:
            parts: only these of processes, files, sockets, limits, terminals, kernels, variables.
            files: of each process all that is open, not the first 64 files only.
            pid: look closer at this process, too.
            file: look for who has this file open; the path may be relative to the shell's directory.
            screens: draw what the terminals show, too.
            disk: compare the files with those of the image, which may take seconds.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        from holdfast.runtime import pulse_calls

        found = pulse_calls.look(self._line, self._row, parts=parts, files=files, pid=pid, file=file)
        if screens:
            found = pulse_calls.with_screens(self._line, found)
        return pulse_calls.with_disk(self._controller, self._line, self._row, found) if disk else found

    def port(self, number: int, *, speak: bool = True) -> Port:
        """Who listens at a port, and whether it answers (`speak`: to a HEAD of HTTP). Raises as `pulse`."""
        from holdfast.runtime import pulse_calls

        return pulse_calls.port(self._line, self._row, number, speak=speak)

    # The kernel.

    def cell(
        self,
        code: str,
        *,
        timeout: float | None = None,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        key: str | None = None,
        reason: str | None = None,
        kernel: str = layout.MAIN,
    ) -> CellResult:
        """Run code in the kernel and wait for its end. Code that raises is a result.

        Args:
            code: in the kernel's language.
            timeout: seconds; then it is interrupted.
            on_event: is given output, displays and errors as they come.
            on_input: is asked for a line when the code reads input: (prompt, is it a password) -> line.
                When it raises EOFError, the code is interrupted. Without it the result says what the code
                is `waiting` for; `answer_cell` goes on.
            key, reason: as for `exec`.
            kernel: which of the session's kernels.

        Raises:
            KernelDied: the kernel's process ended.
            InvalidArgument: `on_input` had no more, or the key stands for other code.
            OutcomeUnknown: as for `exec`.
        """

        def call() -> CellResult:
            with self._line.explained():
                return KernelCall(
                    self._line.client(),
                    self._line.persistence(),
                    code,
                    kernel=kernel,
                    timeout=timeout,
                    on_event=on_event,
                    on_input=on_input,
                    key=key,
                    reason=reason,
                ).run()

        return call() if key is None else cell_once(self._controller, self._row, key, code, kernel, call)

    def answer_cell(
        self,
        waiting: CellResult,
        text: str,
        *,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        kernel: str = layout.MAIN,
    ) -> CellResult:
        """Answer a cell that waits, and follow it from there. Otherwise as `cell`.

        Raises:
            GuestError: no cell of that kernel waits.
        """
        with self._line.explained():
            return answer_cell(self._line, waiting, text, kernel=kernel, on_event=on_event, on_input=on_input)

    def interrupt_kernel(self, kernel: str = layout.MAIN) -> None:
        """Interrupt what the kernel runs."""
        self._line.request("kernel_interrupt", kernel=kernel)

    def restart_kernel(self, kernel: str = layout.MAIN) -> None:
        """End the kernel and start it anew; its variables are lost."""
        self._line.request("kernel_restart", kernel=kernel)

    # Snapshots.

    def snapshot(self, label: str | None = None, kind: SnapshotKind = "live") -> Snapshot:
        """Capture the session at one instant; it runs on.

        Args:
            label: a name for the snapshot; must be free.
            kind: `live` (files, memory, processes) or `filesystem` (files only).

        Raises:
            LiveUnsupported: live is not possible; nothing was taken.
            CaptureFailed, SessionBusy, SessionDead: nothing was taken.
        """
        from holdfast.runtime.snapshot import Snapshot, machinery

        row = machinery().take(self._controller, self._fresh(), label, kind)
        return Snapshot(self._controller, row)

    def fork(self, n: int = 1, name: str | None = None) -> list[Session]:
        """Make n sessions that go on from this moment; this one runs on, too. All of them or none."""
        taken = self.snapshot()
        try:
            return taken.fork(n, name)
        except BaseException:
            # The snapshot was only taken for the forks.
            taken.remove()
            raise

    def suspend(self) -> Session:
        """Capture the session, then free its memory and processors until `resume`."""
        from holdfast.runtime.snapshot import machinery

        self._row = machinery().suspend(self._controller, self._fresh())
        return self

    def resume(self) -> Session:
        """Let a suspended session go on."""
        from holdfast.runtime.snapshot import machinery

        self._row = machinery().resume(self._controller, self._controller.session_row(self.id))
        return self

    def remove(self) -> None:
        """End the session and forget it; its snapshots stay."""
        self._controller.remove_session(self.id)

    def _fresh(self) -> SessionRow:
        """The row as it is now, of a session whose container runs."""
        health.check(self._controller, self.id)
        return self._controller.session_row(self.id)
