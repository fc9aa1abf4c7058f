"""Errors as this wire reports them: status 511 and the class that the client raises.  Pure.

A client raises the class of that path with the message, or its own base class if it does not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast import errors
from holdfast.errors import HoldfastError

STATUS = 511
"""The status of an answer whose error the client raises; its own server uses it for that."""
LONGEST = 64 << 10
"""Characters of a message."""
_THEIRS = "swerex.exceptions."


class RuntimeFailure(HoldfastError):
    """What a client reports in its own words; `details` are for programs."""

    code = "runtime_failure"

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.details = dict(details or {})


class TimeIsOver(RuntimeFailure):
    """A command did not end, or did not show what was expected, in its time; it continues."""

    code = "time_is_over"


class CommandFailed(RuntimeFailure):
    """A command ended with another exit code than 0, and its caller wanted that to be an error."""

    code = "command_failed"


class SyntaxIsWrong(RuntimeFailure):
    """Bash cannot parse the command; nothing of it was run."""

    code = "syntax_is_wrong"


class ExitCodeUnknown(RuntimeFailure):
    """A command still runs, and its caller wanted its exit code."""

    code = "exit_code_unknown"


class ShellExists(RuntimeFailure):
    """The session has a shell of that name already."""

    code = "shell_exists"


class ProgramMissing(RuntimeFailure):
    """There is no such program, or no such folder to run it in."""

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


def body_of(error: HoldfastError) -> dict[str, Any]:
    """Return the body of the answer that reports an error."""
    kind = next((path for kind, path in CLASSES if isinstance(error, kind)), _THEIRS + "SwerexException")
    details = error.details if isinstance(error, RuntimeFailure) else {}
    return body(kind, f"{error}; {error.hint}" if error.hint else str(error), details)


def body(kind: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the body of an answer that reports an error of a class."""
    told = message if len(message) <= LONGEST else f"{message[:LONGEST]}…"
    return {
        "swerexception": {
            "message": told.encode("utf-8", "backslashreplace").decode(),
            "class_path": kind,
            "traceback": "",
            "extra_info": dict(details or {}),
        }
    }
