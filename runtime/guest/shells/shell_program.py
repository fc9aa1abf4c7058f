"""The choice of a session's shell: the requested one, else the image's bash, else our own.

Owns what may be chosen, and whether it can be driven; what a shell reads when it starts is `startup_files`'s
business. A bash can be driven if it loads the builtin that marks its prompts, a zsh if it has its modules.
That is tried with the very program, since no version number tells how it was built.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from io import FileIO
from pathlib import Path

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.identity.account import OWN, USUAL, UserAccount, bash

OURS = "holdfast"
"""The choice of our own bash, whatever the image has."""
SECONDS = 10.0
"""Time limit for a shell that is tried; it takes milliseconds."""
WRITTEN = 4096
"""The most bytes that it can write."""
DRIVEN = ("5.1", "5.2", "5.3")
"""Versions of bash whose variables and arrays the builtin knows how to read."""
_UNSET = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT")
"""Variables that would make a bash do more than it is asked to."""


class ShellKind(StrEnum):
    """How a shell is driven."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True, slots=True)
class ShellProgram:
    """A shell that can be driven. `remark` explains a surprising choice of our own shell."""

    kind: ShellKind
    path: str
    remark: str = ""

    @property
    def name(self) -> str:
        """The name of its process, as the kernel has it."""
        return Path(self.path).name[:15]


def choose(wanted: str | None, account: UserAccount, marks: Path, own: str = OWN) -> ShellProgram:
    """Return the shell for a session.

    Args:
        wanted: what was asked for: the name of a kind, the path of a program, OURS, or None.
        account: the user it runs as.
        marks: the builtin that a bash loads.
        own: the bash that a portable guest brought along; an image of ours has none, and its bash is known.

    Raises:
        LookupError: there is no such shell, or it cannot be driven.
    """
    portable = os.access(own, os.X_OK)
    if wanted == OURS or (not portable and wanted in (None, ShellKind.BASH)):
        return ShellProgram(ShellKind.BASH, own if portable else USUAL)
    env = account.environment(os.environ)
    path = _find(wanted or ShellKind.BASH, env["PATH"])
    if path is None:
        if wanted is None:
            return ShellProgram(ShellKind.BASH, bash())
        raise LookupError(f"cannot use shell {wanted[:200]}: there is no such program in the session")
    if (known := _kind(path)) is None:
        kinds = ", ".join(ShellKind)
        raise LookupError(
            f"cannot use shell {wanted}: only these can be driven: {kinds}; or {OURS}, Holdfast's own"
        )
    kind, path = known
    fault = _fault(kind, path, env, account, marks)
    if not fault:
        return ShellProgram(kind, path)
    if wanted is None:
        return ShellProgram(kind, bash(), f"the shell is Holdfast's own, not the image's {path}: {fault}")
    raise LookupError(f"cannot use shell {wanted}: {fault}")


def _find(wanted: str, search: str) -> str | None:
    """Return the path of a program by its name or path; ours is not the image's."""
    folders = [each for each in search.split(":") if each.startswith("/")]
    found = shutil.which(wanted, path=":".join([*folders, "/usr/bin", "/bin"]))
    return found if found and found.startswith("/") else None


def _kind(path: str) -> tuple[ShellKind, str] | None:
    """Return the kind of a program by its name, `bash` or `bash-5.2`, and the path to start it by.

    What is named otherwise, but is a link to one, is started by its own name: bash as `sh` is another shell.
    """
    for place in (path, os.path.realpath(path)):
        for kind in ShellKind:
            name = Path(place).name
            if name.startswith(kind) and name.removeprefix(kind)[:1] in ("", "-", "."):
                return kind, place
    return None


def _fault(kind: ShellKind, path: str, env: Mapping[str, str], account: UserAccount, marks: Path) -> str:
    """Return why a shell cannot be driven, or an empty string."""
    if kind is ShellKind.ZSH:
        return _zsh_fault(path, env, account)
    if kind is ShellKind.FISH:
        return _fish_fault(path, env, account)
    load = f"enable -f '{marks}' holdfast_marks 2>&1 && printf '\\nloaded %s' \"$BASH_VERSION\""
    said = _said([path, "--norc", "--noprofile", "-c", load], env, account)
    if said is None:
        return "it cannot be run"
    version = said.rpartition("\nloaded ")[2] if "\nloaded " in said else None
    if version is None:
        return ("it cannot load the builtin that marks its prompts") + (
            f" ({line})" if (line := _line(said)) else ""
        )
    if not version.startswith(tuple(f"{each}." for each in DRIVEN)):
        return f"it is version {_line(version)}, and the supported versions are {', '.join(DRIVEN)}"
    return ""


def _zsh_fault(path: str, env: Mapping[str, str], account: UserAccount) -> str:
    need = "zmodload zsh/system zsh/datetime zsh/parameter zsh/zleparameter zsh/files zsh/zle"
    said = _said([path, "-f", "-c", f"{need} 2>&1 && printf '\\nloaded %s' $ZSH_VERSION"], env, account)
    if said is None:
        return "it cannot be run"
    version = said.rpartition("\nloaded ")[2] if "\nloaded " in said else None
    if version is None:
        return f"it lacks modules ({_line(said)})"
    return (
        ""
        if version.startswith("5.")
        else (f"it is version {_line(version)}, and only version 5 is supported")
    )


def _fish_fault(path: str, env: Mapping[str, str], account: UserAccount) -> str:
    said = _said([path, "--no-execute", "--version"], env, account)
    if said is None:
        return "it cannot be run"
    version = said.rpartition("version ")[2]
    # 3.1 marks no end of what is interrupted.
    if version.startswith(("3.6.", "4.")):
        return ""
    return f"it is version {_line(version)}, and only versions 3.6 and 4 are supported"


def _said(argv: list[str], env: Mapping[str, str], account: UserAccount) -> str | None:
    """Return the output of a user's program, or None if it cannot be run, or writes or takes too much."""
    import resource  # only where a shell is tried: sessions on our own image start without these
    import subprocess

    def in_child() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN))
        account.become()

    # The environment that the shell will have, except for what would make it read files.
    clean = {key: each for key, each in env.items() if key not in _UNSET and not key.startswith("BASH_FUNC_")}
    with FileIO(os.memfd_create("said", os.MFD_CLOEXEC), "w+") as output:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=clean,
                cwd="/",
                start_new_session=True,
                preexec_fn=in_child,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said = os.pread(output.fileno(), WRITTEN, 0)
    return said.decode("utf-8", "replace") if len(said) < WRITTEN else None


def _line(text: str) -> str:
    """Return the first line of a text, printable and short."""
    lines = text.strip().splitlines()
    return "".join(each if each.isprintable() else "?" for each in lines[0][:200]) if lines else ""
