"""Asks bash whether a text is complete and correct, without running it.

A bash of the session's user reads it with `set -n`. The grammar is the shell's present one: its options and
aliases count. Changes by the text itself (`shopt -s extglob`, an alias) are not known before it runs.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
from contextlib import suppress
from io import FileIO
from typing import Any

from holdfast.base.value_classes import dataclass, replace
from holdfast.runtime.guest.identity.account import UserAccount, bash, expose_to_oom
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.shells.shell_state import ShellState

SECONDS = 10.0
"""Time limit for reading a text that a caller asks about: 8 MiB take a tenth of it."""
KEPT = 16 << 10
"""Bytes of bash's complaints; the first line is what counts, and it quotes little."""
MAX_ALIASES = 1000
MAX_MESSAGE = 300
_OPTIONS = ("extglob", "expand_aliases", "extquote", "interactive_comments")
"""The options of `shopt` that change how text is read; `posix` is one of `set -o`."""
_COMPLAINT = re.compile(r"bash: line (\d{1,9}): (.*)")
_UNFINISHED = re.compile(
    r"unexpected EOF while looking|unexpected end of file|warning: here-document .* delimited by end-of-file"
)
_HERE = re.compile(r"warning: here-document at line \d+ delimited by end-of-file \(wanted (.*)\)")


class CannotCheck(Exception):
    """Bash could not check the text."""


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """A fault in a text: `incomplete` if more of it could make it right. Lines count from 1."""

    line: int
    message: str
    incomplete: bool

    def phrase(self) -> str:
        """Return the fault as a phrase."""
        return f"line {self.line}: {self.message}"


def judge(complaints: str, before: int) -> SyntaxFault | None:
    """Return bash's first complaint; `before` is the number of lines it read before the text."""
    for line in complaints.split("\n"):
        found = _COMPLAINT.fullmatch(line)
        if found is None:
            continue
        message, number = (
            found[2].removeprefix("syntax error: ")[:MAX_MESSAGE],
            max(1, int(found[1]) - before),
        )
        if here := _HERE.match(message):
            return SyntaxFault(
                number, (f"the here-document does not end (expected {here[1]})"), incomplete=True
            )
        if not message.startswith("warning: "):
            return SyntaxFault(number, message, incomplete=_UNFINISHED.search(message) is not None)
    return None


def prelude(state: ShellState) -> str:
    """Return the text that makes a bash read as the shell does, and run nothing from there on."""
    known = [one for one in state.aliases.values() if one.value is not None][:MAX_ALIASES]
    words = " ".join(shlex.quote(f"{one.name}={one.value}") for one in known)
    return f"alias -- {words} 2>/dev/null\nset -n\n" if words else "set -n\n"


def options(state: ShellState) -> list[str]:
    """Return the arguments that give a bash the shell's reading options."""
    variables = state.variables
    if (given := variables.get("BASHOPTS")) is None or given.value is None:
        return ["-O", "expand_aliases"]
    on = given.value.split(":")
    words = [word for name in _OPTIONS for word in ("-O" if name in on else "+O", name)]
    modes = variables.get("SHELLOPTS")
    posix = modes is not None and "posix" in (modes.value or "").split(":")
    return [*words, *(["-o", "posix"] if posix else [])]


async def check(
    text: bytes, state: ShellState, account: UserAccount, reaper: Reaper, seconds: float = SECONDS
) -> SyntaxFault | None:
    """Return the fault of a text, or None.

    Raises:
        CannotCheck: bash could not check it.
    """
    ahead, words = prelude(state).encode("utf-8", "surrogateescape"), options(state)
    before = ahead.count(b"\n")
    fault = judge(await _complaints(ahead + text, words, account, reaper, seconds), before)
    lines = text.rstrip(b"\n").count(b"\n") + 1
    # To bash, the end of the file is a line of its own.
    return fault and replace(fault, line=min(fault.line, lines))


async def _complaints(
    script: bytes, words: list[str], account: UserAccount, reaper: Reaper, seconds: float
) -> str:
    over = asyncio.Event()
    try:
        with _memory("text") as stdin, _memory("complaints") as stderr:
            stdin.write(script)
            stdin.seek(0)
            process = _start(words, stdin, stderr, account, reaper, over)
            try:
                async with asyncio.timeout(seconds):
                    await over.wait()
            finally:
                if process.returncode is None:
                    reaper.forget(process.pid)
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            return os.pread(stderr.fileno(), KEPT, 0).decode("utf-8", "replace")
    except TimeoutError:
        raise CannotCheck(f"bash did not read it within {seconds:.0f} s") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotCheck(f"bash cannot be run ({error})") from error


def _memory(name: str) -> FileIO:
    """Return an unnamed file, so that the text does not stay in the session."""
    return FileIO(os.memfd_create(name, os.MFD_CLOEXEC), "w+")


def _start(
    words: list[str], stdin: FileIO, stderr: FileIO, account: UserAccount, reaper: Reaper, over: asyncio.Event
) -> subprocess.Popen[bytes]:
    who: dict[str, Any] = {}
    if account.foreign:
        who = {"user": account.uid, "group": account.gid, "extra_groups": account.groups()}
    with reaper.held():
        process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", *words, "-s"],
            executable=bash(),
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            # Leave out what would make it run something: BASH_ENV, or functions of the environment.
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
            **who,
        )

        def ended() -> None:
            process.poll()
            over.set()

        reaper.watch(process.pid, ended)
    expose_to_oom(process.pid)
    return process
