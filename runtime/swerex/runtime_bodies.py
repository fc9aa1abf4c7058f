"""Bodies of this wire, the limits of each, and errors as it reports them: status 511 and a class. Pure.

Fields that a newer client adds are passed over. A client raises the class of an error's path with the
message, or its own base class if it does not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast import errors
from holdfast.base.value_classes import asdict, dataclass
from holdfast.errors import HoldfastError
from holdfast.runtime.guest_rpc.call_arguments import FOREVER
from holdfast.runtime.swerex.expected_output import LONGEST

TEXT = r"^[^\x00]*$"
ShellName = Annotated[str, Field(min_length=1, max_length=200, pattern=TEXT)]
Command = Annotated[str, Field(max_length=8 << 20, pattern=TEXT)]
Word = Annotated[str, Field(max_length=128 << 10, pattern=TEXT)]
Duration = Annotated[float, Field(ge=0, lt=FOREVER)]
FilePath = Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)]
Moment = Annotated[float, Field(ge=0, le=600)]
Expected = Annotated[list[Annotated[str, Field(min_length=1, max_length=LONGEST)]], Field(max_length=20)]
PROMPT = "SHELLPS1PREFIX"
"""What an observation names if the shell's prompt ended it: what the client's own server calls its prompt."""


class RuntimeBody(BaseModel):
    """A body of a request."""

    model_config = ConfigDict(extra="ignore")


class NewShell(RuntimeBody):
    """A shell to open. `startup_source` are files to source, in `startup_timeout` seconds."""

    session: ShellName = "default"
    session_type: Literal["bash"] = "bash"
    startup_source: Annotated[list[FilePath], Field(max_length=100)] = []
    startup_timeout: Moment = 1.0


class ClosedShell(RuntimeBody):
    """A shell to close."""

    session: ShellName = "default"
    session_type: Literal["bash"] = "bash"


class ShellCommand(RuntimeBody):
    """A command for a shell, or a line for the program in its foreground.

    `timeout` is in seconds. `expect` are patterns of output that end the call as the prompt does.
    """

    action_type: Literal["bash"] = "bash"
    command: Command
    session: ShellName = "default"
    timeout: Duration | None = None
    is_interactive_command: bool = False
    is_interactive_quit: bool = False
    check: Literal["silent", "raise", "ignore"] = "raise"
    error_msg: Annotated[str, Field(max_length=64 << 10)] = ""
    expect: Expected = []

    @property
    def interactive(self) -> bool:
        """True if it is a line for a program that asks, or the start of one."""
        return self.is_interactive_command or self.is_interactive_quit


class ShellInterrupt(RuntimeBody):
    """An interrupt of the running program in a shell, repeated `n_retry` times after `timeout` seconds
    each."""

    action_type: Literal["bash_interrupt"]
    session: ShellName = "default"
    timeout: Moment = 0.2
    n_retry: Annotated[int, Field(ge=0, le=100)] = 3
    expect: Expected = []


Action = Annotated[ShellCommand | ShellInterrupt, Field(discriminator="action_type")]


class PlainCommand(RuntimeBody):
    """A program to run independently of the shells, as `subprocess.run` takes it. `timeout` is in seconds."""

    command: Command | Annotated[list[Word], Field(min_length=1, max_length=100_000)]
    timeout: Duration | None = None
    shell: bool = False
    check: bool = False
    error_msg: Annotated[str, Field(max_length=64 << 10)] = ""
    env: Annotated[dict[Word, Word], Field(max_length=1000)] | None = None
    cwd: FilePath | None = None
    merge_output_streams: bool = False


class FileToRead(RuntimeBody):
    """A text file to read, as `Path.read_text` takes it."""

    path: FilePath
    encoding: Annotated[str, Field(max_length=60)] | None = None
    errors: Annotated[str, Field(max_length=60)] | None = None


class FileToWrite(RuntimeBody):
    """A text file to write."""

    path: FilePath
    content: str


@dataclass(frozen=True, slots=True)
class Observation:
    """The end of an action in a shell. `exit_code` is None if it is unknown, or was not requested."""

    output: str = ""
    exit_code: int | None = 0
    failure_reason: str = ""
    expect_string: str = PROMPT

    def as_dict(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return {**asdict(self), "session_type": "bash"}


STATUS = 511
"""The status of an answer whose error the client raises; its own server uses it for that."""
LONGEST_MESSAGE = 64 << 10
"""Characters of a message."""
_THEIRS = "swerex.exceptions."


class RuntimeFailure(HoldfastError):
    """An error that clients report in their own words; `details` are for programs."""

    code = "runtime_failure"

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.details = dict(details or {})


class TimeIsOver(RuntimeFailure):
    """A command did not end, or did not show an expected pattern, in time; it continues."""

    code = "time_is_over"


class CommandFailed(RuntimeFailure):
    """A command ended with a nonzero exit code, and its caller wanted that to be an error."""

    code = "command_failed"


class SyntaxIsWrong(RuntimeFailure):
    """Bash cannot parse the command, and did not run it."""

    code = "syntax_is_wrong"


class ExitCodeUnknown(RuntimeFailure):
    """A command still runs, and its caller wanted its exit code."""

    code = "exit_code_unknown"


class ShellExists(RuntimeFailure):
    """The session has a shell of that name already."""

    code = "shell_exists"


class ProgramMissing(RuntimeFailure):
    """The program, or the folder to run it in, does not exist."""

    code = "program_missing"


CLASSES: tuple[tuple[type[HoldfastError], str], ...] = (
    # The first that fits: subclasses stand before their bases.
    (TimeIsOver, _THEIRS + "CommandTimeoutError"),
    (CommandFailed, _THEIRS + "NonZeroExitCodeError"),
    (SyntaxIsWrong, _THEIRS + "BashIncorrectSyntaxError"),
    (ExitCodeUnknown, _THEIRS + "NoExitCodeError"),
    (ShellExists, _THEIRS + "SessionExistsError"),
    (errors.ShellNotFound, _THEIRS + "SessionDoesNotExistError"),
    (errors.SessionNotFound, _THEIRS + "DeploymentNotStartedError"),
    (errors.SessionDead, _THEIRS + "DeploymentNotStartedError"),
    (ProgramMissing, "builtins.FileNotFoundError"),
    (errors.SessionFileNotFound, "builtins.FileNotFoundError"),
    (errors.SessionFileDenied, "builtins.PermissionError"),
    (errors.SessionFileError, "builtins.OSError"),
    (errors.InvalidArgument, "builtins.ValueError"),
)


def error_body_of(error: HoldfastError) -> dict[str, Any]:
    """Return the body of the answer that reports an error."""
    kind = next((path for kind, path in CLASSES if isinstance(error, kind)), _THEIRS + "SwerexException")
    details = error.details if isinstance(error, RuntimeFailure) else {}
    return error_body(kind, f"{error}; {error.hint}" if error.hint else str(error), details)


def error_body(kind: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the body of an answer that reports an error of a class."""
    told = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…"
    return {
        "swerexception": {
            "message": told.encode("utf-8", "backslashreplace").decode(),
            "class_path": kind,
            "traceback": "",
            "extra_info": dict(details or {}),
        }
    }
