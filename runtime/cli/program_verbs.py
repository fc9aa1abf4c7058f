"""Verbs: run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json, Raw, SessionRef
from holdfast.runtime.cli.caller import controller, wants_json

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.program_result import ProgramResult

PIECE = 256 << 10
TIMED_OUT = 124
SIGNALLED = 128


def run(
    session: SessionRef,
    argv: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARG...]", help="What to run.")],
    stdin: Annotated[
        bool, typer.Option("--input", "-i", help="Pass standard input on to the program.")
    ] = False,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="KEY=VALUE", help="Set a variable. Repeatable.")
    ] = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", "-w", metavar="DIR", help="Directory; by default the shell's.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="User of the session to run it as.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="End it, and what it started, after this many seconds.")
    ] = None,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Run a program without shell and terminal. Exits with its code, or 124 after a timeout.

    Its output and its errors are passed on separately, byte for byte. The shell stays free for others.
    """
    variables = dict(_variable(each) for each in env or ())
    programs = controller().session(session).programs
    given = _input() if stdin else None
    start = partial(programs.run, argv, input=given, env=variables, cwd=cwd, user=user, timeout=timeout)
    if wants_json(json):
        result = start()
        printing.emit(result.as_dict())
        raise typer.Exit(_code(result))
    with printing.guest_output(raw=raw) as out, printing.guest_output(raw=raw, file=sys.stderr) as err:
        result = start(on_stdout=out, on_stderr=err)
    if result.timed_out:
        printing.note(f"the program was ended after {timeout:g} s")
    raise typer.Exit(_code(result))


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise InvalidArgument(f"cannot set {text!r}: it must be KEY=VALUE")
    return name, value


def _input() -> Iterator[bytes]:
    while data := os.read(sys.stdin.fileno(), PIECE):
        yield data


def _code(result: ProgramResult) -> int:
    if result.timed_out:
        return TIMED_OUT
    return SIGNALLED + result.signal if result.signal is not None else result.exit_code or 0
