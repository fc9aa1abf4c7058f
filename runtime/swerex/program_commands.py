"""Programs beside the shells, run to their end as `subprocess.run` does."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramResult
from holdfast.runtime.swerex.runtime_bodies import (
    CommandFailed,
    PlainCommand,
    ProgramMissing,
    RuntimeFailure,
    TimeIsOver,
)

SHORTEST = 0.001
"""Seconds of a time limit of none."""
MERGED = 'exec "$@" 2>&1'


def words(asked: PlainCommand) -> list[str]:
    """Return the program and its arguments.  Pure."""
    given = [asked.command] if isinstance(asked.command, str) else list(asked.command)
    argv = ["/bin/sh", "-c", *given] if asked.shell else given
    return ["/bin/sh", "-c", MERGED, "sh", *argv] if asked.merge_output_streams else argv


def execute(
    found: Session, asked: PlainCommand, patience: Patience, stopping: Callable[[], bool]
) -> dict[str, str | int]:
    """Run it, and return what it wrote and its exit code, which is negative if a signal ended it.

    A client that leaves ends it; the end of the server does not.

    Raises:
        TimeIsOver: it took too long, and was ended with all it had started.
        CommandFailed: it failed, and its caller wanted that to be an error.
        ProgramMissing: there is no such program or folder.
        RuntimeFailure: it wrote more than an answer may have.
        SessionError, GuestError: it cannot be run.
    """
    try:
        program = found.programs.start(words(asked), env=asked.env, cwd=asked.cwd)
    except InvalidArgument as error:
        raise ProgramMissing(str(error), hint=error.hint) from error
    timeout = None if asked.timeout is None else max(SHORTEST, asked.timeout)
    result = program.wait(timeout=timeout, patience=patience)
    if result.timed_out:
        raise TimeIsOver(
            f"cannot wait for {_command(asked)}: timeout after {asked.timeout:g} s; it was ended"
        )
    if result.info.state == "running":
        if not stopping():
            program.signal("TERM")
        raise TimeIsOver(f"cannot wait for {_command(asked)}: the server ends; the command continues")
    if result.dropped or result.lost:
        raise RuntimeFailure(
            f"cannot return what {_command(asked)} wrote: it has more than 16 MiB",
            hint="let it write into a file",
        )
    answer: dict[str, str | int] = {
        "stdout": result.stdout.decode("utf-8", "backslashreplace"),
        "stderr": result.stderr.decode("utf-8", "backslashreplace"),
        "exit_code": exit_code(result),
    }
    if asked.check and answer["exit_code"] != 0:
        message = (
            f"Command {asked.command!r} failed with exit code {answer['exit_code']}. "
            f"Stdout:\n{answer['stdout']!r}\nStderr:\n{answer['stderr']!r}"
        )
        raise CommandFailed(f"{asked.error_msg}: {message}" if asked.error_msg else message)
    return answer


def exit_code(result: ProgramResult) -> int:
    """Return the exit code of a program that has ended, as `subprocess` has it.  Pure."""
    return -(result.signal or 0) if result.exit_code is None else result.exit_code


def _command(asked: PlainCommand) -> str:
    return f"the command {str(asked.command)[:1000]!r}"
