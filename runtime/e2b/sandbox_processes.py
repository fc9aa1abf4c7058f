"""The processes of a sandbox: programs on pipes and jobs on terminals, and their form on the wire."""

from __future__ import annotations

import base64
import binascii
import shlex
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from holdfast.base import shell_words
from holdfast.errors import GuestDisconnected, InvalidArgument, ProgramNotFound
from holdfast.runtime.api.job import Job
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.api.running_program import RunningProgram
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.connect_wire import InputNotTaken, WireBody
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramInfo

SIGNALS = {"SIGNAL_SIGTERM": "TERM", "SIGNAL_SIGKILL": "KILL", 15: "TERM", 9: "KILL"}
"""The signals of this wire, by name and number; it does not have others."""


def _bytes(given: Any) -> Any:
    """Decode base64 as Proto3 JSON allows it: either alphabet, with or without padding."""
    if not isinstance(given, str):
        raise ValueError("it must be base64")
    plain = given.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it must be base64") from None


WireBytes = Annotated[bytes, BeforeValidator(_bytes)]
Side = Annotated[int, Field(ge=1, le=1000)]


class ProcessBody(WireBody):
    """A message in which a field that is null counts as left out."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class ProcessChoice(ProcessBody):
    """A reference to a process: by its pid, or by the tag it was started with."""

    pid: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    tag: str | None = None

    @model_validator(mode="after")
    def _one(self) -> ProcessChoice:
        if (self.pid is None) == (self.tag is None):
            raise ValueError("it must name a process by its pid or its tag")
        return self

    def __str__(self) -> str:
        return str(self.pid) if self.tag is None else f"tagged {self.tag[:100]!r}"


class PtyArea(ProcessBody):
    """The size of a terminal, in characters."""

    cols: Side
    rows: Side


class PtyBody(ProcessBody):
    """A terminal."""

    size: PtyArea | None = None


class ProcessWords(ProcessBody):
    """A program, its arguments, variables and directory."""

    cmd: Annotated[str, Field(min_length=1)]
    args: list[str] = Field(default_factory=list)
    envs: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None


class StartBody(ProcessBody):
    """A process to be started: on a terminal if it has `pty`, else on pipes, with input unless refused."""

    process: ProcessWords
    pty: PtyBody | None = None
    tag: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    stdin: bool = True


class ProcessRef(ProcessBody):
    """A process."""

    process: ProcessChoice


class UpdateBody(ProcessRef):
    """The change of a process: the size of its terminal."""

    pty: PtyBody | None = None


class InputBytes(ProcessBody):
    """Input: for a pipe, or for a terminal."""

    stdin: WireBytes | None = None
    pty: WireBytes | None = None

    @model_validator(mode="after")
    def _one(self) -> InputBytes:
        if (self.stdin is None) == (self.pty is None):
            raise ValueError("it must have either stdin or pty")
        return self

    @property
    def kind(self) -> str:
        """Whether it is for `stdin` or `pty`."""
        return "stdin" if self.pty is None else "pty"

    @property
    def data(self) -> bytes:
        """The bytes."""
        return (self.stdin if self.pty is None else self.pty) or b""


class SendInputBody(ProcessRef):
    """Input for a process."""

    input: InputBytes


class InputPart(ProcessBody):
    """One piece of a stream of input."""

    input: InputBytes


class StreamInputBody(ProcessBody):
    """A message of a stream of input: first the process, then its input; either can be a keepalive."""

    start: ProcessRef | None = None
    data: InputPart | None = None


class SendSignalBody(ProcessRef):
    """A signal for a process."""

    signal: str | int = 0

    def name(self) -> str:
        """Return the signal as the library names it.

        Raises:
            InvalidArgument: the protocol does not have this signal.
        """
        if self.signal not in SIGNALS:
            raise InvalidArgument(
                f"cannot send the signal {self.signal!r:.40}: the protocol does not have this signal",
                hint="use SIGNAL_SIGTERM or SIGNAL_SIGKILL",
            )
        return SIGNALS[self.signal]


NOT_EXITED = -1
"""The exit code of a process that a signal ended."""
_EXEC = "exec "
_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class EndOfProcess:
    """How a process ended: its exit code, or the signal that ended it; and the amount of lost output."""

    exit_code: int | None
    signal: int | None
    lost: int = 0


def started_message(pid: int) -> dict[str, Any]:
    """Return the first message of a stream."""
    return {"event": {"start": {"pid": pid}}}


def wrote_message(stream: str, data: bytes) -> dict[str, Any]:
    """Return the message for output of a process to `stdout`, `stderr` or its `pty`."""
    return {"event": {"data": {stream: base64.b64encode(data).decode("ascii")}}}


def ended_message(end: EndOfProcess) -> dict[str, Any]:
    """Return the message for an end, in the words of Go's `os.ProcessState`, which clients know."""
    exited = end.signal is None
    code = min(max(end.exit_code or 0, -_INT32), _INT32) if exited else NOT_EXITED
    status = f"exit status {code}" if end.signal is None else f"signal: {_signal(end.signal)}"
    errors = [status] if code else []
    if end.lost:
        errors.append(f"{end.lost} bytes of its output were lost because the reader was too slow")
    told: dict[str, Any] = {"exitCode": code, "exited": exited, "status": status}
    return {"event": {"end": told | ({"error": "; ".join(errors)} if errors else {})}}


def _signal(number: int) -> str:
    try:
        return (signal.strsignal(number) or "").lower() or f"signal {number}"
    except (ValueError, OverflowError):
        return f"signal {number}"


def process_described(pid: int, tag: str, words: Sequence[str], cwd: str) -> dict[str, Any]:
    """Return the list entry of a process, without its variables."""
    config = {"cmd": words[0] if words else "", "args": list(words[1:]), "envs": {}, "cwd": cwd}
    return {"config": config, "pid": pid, **({"tag": tag} if tag else {})}


def command_of(words: Sequence[str]) -> str:
    """Return the text that makes bash execute a program."""
    return _EXEC + shell_words.join(words)


def words_of(command: str) -> list[str]:
    """Return the program and arguments that a text stands for, see `command_of`; else bash with the text."""
    if command.startswith(_EXEC):
        try:
            words = shlex.split(command[len(_EXEC) :])
        except ValueError:  # it was cut off
            words = []
        if words and command_of(words) == command:
            return words
    return ["/bin/bash", "-c", command]


OnData = Callable[[str, bytes], object]
"""Takes what a process wrote: the stream's name, and the bytes."""


class SandboxProcess(ABC):
    """One process, running or ended."""

    def __init__(self, pid: int, tag: str, running: bool) -> None:
        self.pid, self.tag, self.running = pid, tag, running

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return the list entry."""

    @abstractmethod
    def follow(self, patience: Patience, on_data: OnData) -> EndOfProcess | None:
        """Pass on all its output, from the beginning, and return its end; None if the patience is over."""

    @abstractmethod
    def signal(self, name: str) -> None:
        """Send a signal to it and its children."""

    @abstractmethod
    def write(self, kind: str, data: bytes, patience: Patience) -> None:
        """Send it input of a kind, `stdin` or `pty`.

        Raises:
            InputNotTaken: it does not read.
        """

    @abstractmethod
    def close_input(self) -> None:
        """Close its input."""

    @abstractmethod
    def resize(self, size: PtyArea) -> None:
        """Change the size of its terminal."""


class PipedProcess(SandboxProcess):
    """A program on three pipes."""

    def __init__(self, program: RunningProgram, info: ProgramInfo) -> None:
        super().__init__(info.pid, info.name, info.state == "running")
        self._program, self._info = program, info

    def described(self) -> dict[str, Any]:
        """Return the list entry."""
        return process_described(self.pid, self.tag, self._info.argv, self._info.cwd)

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
        """Send a signal to it and its children."""
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
                hint="allow more time, or connect to it and check its activity",
            )
        raise InvalidArgument(
            f"cannot give process {self.pid} input: its input is closed",
            hint="start it with `stdin` for one that stays open",
        )

    def close_input(self) -> None:
        """Let it find the end of its input."""
        self._program.close_input()

    def resize(self, size: PtyArea) -> None:
        """Refuse: it does not have a terminal."""
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
        """Return the list entry."""
        words = words_of(self._info.command)
        return process_described(self.pid, self.tag, words, self._info.cwd)

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
        command_of(words),
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
        raise ProgramNotFound(f"cannot find the process {choice}: it does not exist, or is too old")
    return next((each for each in reversed(fitting) if each.running), fitting[-1])


def running(found: Session, choice: ProcessChoice) -> SandboxProcess:
    """Return a process that runs.

    Raises:
        ProgramNotFound: none does.
    """
    process = known(found, choice)
    if not process.running:
        raise ProgramNotFound(
            f"cannot reach the process {choice}: it has ended", hint="connect to it for its exit status"
        )
    return process


def _fits(process: SandboxProcess, choice: ProcessChoice) -> bool:
    return process.tag == choice.tag if choice.pid is None else process.pid == choice.pid
