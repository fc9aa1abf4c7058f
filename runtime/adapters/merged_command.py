"""Commands of agents that want both streams merged, each in a shell of its own. Pure."""

from __future__ import annotations

from holdfast.runtime.guest_rpc.program_result import ProgramResult

TIMED_OUT = 124
"""The exit code of timeout(1) for a program that it has ended."""


def words(command: str, *, login: bool) -> list[str]:
    """Return the program that runs a bash command, with standard error merged into standard output."""
    options = "-lc" if login else "-c"
    return ["/bin/bash", "-c", f'exec 2>&1; exec /bin/bash {options} "$1"', "bash", command]


def exit_code(result: ProgramResult) -> int:
    """Return the exit code of a command as a shell has it."""
    if result.timed_out:
        return TIMED_OUT
    return 128 + (result.signal or 0) if result.exit_code is None else result.exit_code


def text(result: ProgramResult) -> str:
    """Return its output as text."""
    return result.stdout.decode("utf-8", "replace")
