"""Verbs: run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.errors import InvalidArgument, SessionNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, RAW, session_names
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.reporting import Exit

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.program_result import ProgramResult

PIECE = 256 << 10
DATA = "data"
"""The image of this name is built here, and has no tag."""
TIMED_OUT = 124
SIGNALLED = 128


@examples(
    "run work -- python3 -c 'print(1)'",
    "run work -i -- wc -l < names.txt",
    "run debian:12 -- cat /etc/os-release   # a session of its own, removed at the end",
)
def run(
    session: str = argument(
        "SESSION|IMAGE",
        help="Name of a session or prefix of its id; or an image as NAME:TAG, or `data`.",
        names=session_names,
    ),
    argv: list[str] = argument("-- PROGRAM [ARG...]", help="What to run."),
    stdin: bool = option("--input", "-i", help="Pass standard input on to the program."),
    env: list[str] | None = option("--env", "-e", metavar="KEY=VALUE", help="Set a variable. Repeatable."),
    cwd: str | None = option("--cwd", "-w", metavar="DIR", help="Directory; by default the shell's."),
    user: str | None = option(metavar="NAME", help="User of the session to run it as."),
    timeout: float | None = option(metavar="S", help="End the program and its children after S seconds."),
    raw: bool = RAW,
    json: bool = JSON,
) -> None:
    """Run a program without shell and terminal. Exits with its code, or 124 after a timeout.

    Its output and its errors are passed on separately, byte for byte. The shell stays free for others.
    An image gets a session of its own, which is removed at the end.
    """
    variables = dict(_variable(each) for each in env or ())
    given = _input() if stdin else None
    with _session(session) as found:
        programs = found.programs
        start = partial(programs.run, argv, input=given, env=variables, cwd=cwd, user=user, timeout=timeout)
        code = _ran(start, timeout, raw=raw, as_json=wants_json(json))
    raise Exit(code)


@contextmanager
def _session(ref: str) -> Iterator[Session]:
    """Yield the session of this name, or one of this image, which is removed at the end.

    A name that no session has is not taken for an image: a slip would fetch one that was not meant.
    """
    holdfast = controller()
    if (found := _existing(holdfast, ref)) is not None:
        yield found
        return
    from holdfast.runtime.cli import image_choice  # most runs are in a session

    nothing: Any = dict.fromkeys(("folder", "file", "target", "policy", "devcontainer"))
    image = image_choice.choose(holdfast, image=ref, arguments=(), entrypoint=False, **nothing)
    with holdfast.new(image=image, remove=True) as made:
        yield made


def _existing(holdfast: Holdfast, ref: str) -> Session | None:
    """Return the session of this name; None if it names an image."""
    if is_image(ref):
        return None
    try:
        return holdfast.session(ref)
    except SessionNotFound as error:
        if ref == DATA:
            return None
        hint = f"`holdfast ls` lists sessions; an image is named with its tag: {ref}:latest"
        raise SessionNotFound(str(error), hint=hint) from None


def is_image(ref: str) -> bool:
    """Return whether a name can only be that of an image: it has a tag, a digest or a registry."""
    return re.fullmatch(ids.NAME, ref) is None and (":" in ref or "/" in ref)


def _ran(start: Callable[..., ProgramResult], timeout: float | None, *, raw: bool, as_json: bool) -> int:
    if as_json:
        result = start()
        printing.emit(result.as_dict())
        return _code(result)
    with printing.guest_output(raw=raw) as out, printing.guest_output(raw=raw, file=sys.stderr) as err:
        result = start(on_stdout=out, on_stderr=err)
    if result.timed_out:
        printing.note(f"the program was ended after {timeout:g} s")
    return _code(result)


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
