"""The processes of a sandbox: programs on pipes and jobs on terminals, under their pids and tags."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from holdfast.errors import GuestDisconnected, InvalidArgument, ProgramNotFound
from holdfast.runtime.api.job import Job
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.api.running_program import RunningProgram
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.e2b_errors import InputNotTaken
from holdfast.runtime.e2b.process import process_messages
from holdfast.runtime.e2b.process.process_bodies import ProcessChoice, PtyArea, StartBody
from holdfast.runtime.e2b.process.process_messages import EndOfProcess
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramInfo

OnData = Callable[[str, bytes], object]
"""Takes what a process wrote: the stream's name, and the bytes."""


class SandboxProcess(ABC):
    """One process, running or ended."""

    def __init__(self, pid: int, tag: str, running: bool) -> None:
        self.pid, self.tag, self.running = pid, tag, running

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return what a list says of it."""

    @abstractmethod
    def follow(self, patience: Patience, on_data: OnData) -> EndOfProcess | None:
        """Pass on all it writes, from its beginning, and return its end; None if the patience is over."""

    @abstractmethod
    def signal(self, name: str) -> None:
        """Send a signal to it and to what it started."""

    @abstractmethod
    def write(self, kind: str, data: bytes, patience: Patience) -> None:
        """Give it input of a kind, `stdin` or `pty`.

        Raises:
            InputNotTaken: it does not read.
        """

    @abstractmethod
    def close_input(self) -> None:
        """Let it find the end of its input."""

    @abstractmethod
    def resize(self, size: PtyArea) -> None:
        """Change the size of its terminal."""


class PipedProcess(SandboxProcess):
    """A program on three pipes."""

    def __init__(self, program: RunningProgram, info: ProgramInfo) -> None:
        super().__init__(info.pid, info.name, info.state == "running")
        self._program, self._info = program, info

    def described(self) -> dict[str, Any]:
        """Return what a list says of it."""
        return process_messages.described(self.pid, self.tag, self._info.argv, self._info.cwd)

    def follow(self, patience: Patience, on_data: OnData) -> EndOfProcess | None:
        """Pass on all it writes, from its beginning, and return its end; None if the patience is over."""
        result = self._program.wait(
            patience=patience,
            on_stdout=lambda data: on_data("stdout", data),
            on_stderr=lambda data: on_data("stderr", data),
        )
        if result.info.state == "running":
            return None
        return EndOfProcess(result.exit_code, result.signal, result.lost)

    def signal(self, name: str) -> None:
        """Send a signal to it and to what it started."""
        self._program.signal(name)

    def write(self, kind: str, data: bytes, patience: Patience) -> None:
        """Give it input."""
        if kind != "stdin":
            raise InvalidArgument(
                f"cannot type into process {self.pid}: it has no terminal", hint="send `stdin` instead"
            )
        if self._program.write(data, patience=patience) == len(data):
            return
        if patience.over:
            raise InputNotTaken(
                f"cannot give process {self.pid} all of the input: it does not read",
                hint="allow more time, or connect to it and see what it does",
            )
        raise InvalidArgument(
            f"cannot give process {self.pid} input: its input is closed",
            hint="start it with `stdin` for one that stays open",
        )

    def close_input(self) -> None:
        """Let it find the end of its input."""
        self._program.close_input()

    def resize(self, size: PtyArea) -> None:
        """Refuse: it has no terminal."""
        raise InvalidArgument(
            f"cannot resize process {self.pid} to {size.cols}x{size.rows}: it has no terminal",
            hint="start it with `pty`",
        )


class PtyProcess(SandboxProcess):
    """A job on a terminal of its own."""

    def __init__(self, job: Job, info: JobInfo) -> None:
        super().__init__(info.pid, info.name, info.running)
        self._job, self._info = job, info

    def described(self) -> dict[str, Any]:
        """Return what a list says of it."""
        words = process_messages.words_of(self._info.command)
        return process_messages.described(self.pid, self.tag, words, self._info.cwd)

    def follow(self, patience: Patience, on_data: OnData) -> EndOfProcess | None:
        """Pass on all it writes, from its beginning, and return its end; None if the patience is over."""
        result = self._job.wait(
            wait=True, raw=True, patience=patience, on_bytes=lambda data: on_data("pty", data)
        )
        if result.running:
            return None
        return EndOfProcess(result.exit_code, result.signal, result.lost)

    def signal(self, name: str) -> None:
        """Send a signal to it and to all in its terminal."""
        self._job.signal(name)

    def write(self, kind: str, data: bytes, patience: Patience) -> None:
        """Type into its terminal."""
        if kind != "pty":
            raise InvalidArgument(
                f"cannot give process {self.pid} input: it has a terminal", hint="send `pty` instead"
            )
        if not data or patience.over:
            return
        try:
            self._job.send(data, patience=patience)
        except GuestDisconnected as error:
            raise InputNotTaken(
                f"cannot tell whether all was typed into process {self.pid}: it does not read, or the "
                "sandbox was captured just then"
            ) from error

    def close_input(self) -> None:
        """Refuse: a terminal has a key for that."""
        raise InvalidArgument(
            f"cannot close the input of process {self.pid}: it has a terminal",
            hint="type Ctrl-D (\\x04) instead",
        )

    def resize(self, size: PtyArea) -> None:
        """Change the size of its terminal."""
        self._job.resize(size.rows, size.cols)


def start(
    found: Session, asked: StartBody, env: dict[str, str], user: str | None, cwd: str | None
) -> SandboxProcess:
    """Start a process as a user in a directory; None for the session's own ones."""
    words = [asked.process.cmd, *asked.process.args]
    if asked.pty is None:
        program = found.programs.start(words, input=asked.stdin, env=env, cwd=cwd, user=user, name=asked.tag)
        return PipedProcess(program, program.info())
    size = asked.pty.size
    job = found.detach(
        process_messages.command_of(words),
        name=asked.tag,
        env=env,
        cwd=cwd,
        user=user,
        rows=None if size is None else size.rows,
        cols=None if size is None else size.cols,
        apart=True,
    )
    return PtyProcess(job, job.info())


def all_of(found: Session) -> list[SandboxProcess]:
    """Return all that the sandbox knows, running and ended; of each kind the oldest first."""
    jobs = [PtyProcess(found.job(each.id), each) for each in found.jobs()]
    return [*jobs, *(PipedProcess(found.programs.get(each.id), each) for each in found.programs.list())]


def known(found: Session, choice: ProcessChoice) -> SandboxProcess:
    """Return a process that runs or has ended; of several, the newest that runs, or the newest.

    Raises:
        ProgramNotFound: there is none.
    """
    fitting = [each for each in all_of(found) if _fits(each, choice)]
    if not fitting:
        raise ProgramNotFound(f"cannot find the process {choice}: there is none, or it is too old")
    return next((each for each in reversed(fitting) if each.running), fitting[-1])


def running(found: Session, choice: ProcessChoice) -> SandboxProcess:
    """Return a process that runs.

    Raises:
        ProgramNotFound: none does.
    """
    process = known(found, choice)
    if not process.running:
        raise ProgramNotFound(
            f"cannot reach the process {choice}: it has ended", hint="connect to it for its end"
        )
    return process


def _fits(process: SandboxProcess, choice: ProcessChoice) -> bool:
    return process.tag == choice.tag if choice.pid is None else process.pid == choice.pid
